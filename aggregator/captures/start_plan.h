// StartPlan decides when the ranks of one capture begin and end: at a time, at a step that all ranks can
// still reach, or by their profilers' count of iterations.
//
// It has no lock and no clock: its CaptureSession guards it and passes the time. T0 and T1 are 0 until Begin.
#ifndef LOCKSTEP_AGGREGATOR_CAPTURES_START_PLAN_H_
#define LOCKSTEP_AGGREGATOR_CAPTURES_START_PLAN_H_

#include <cstdint>
#include <optional>

#include "aggregator/captures/capture_ranks.h"
#include "aggregator/captures/session_limits.h"
#include "base/time.h"
#include "capture/model/capture.h"
#include "lockstep/v1/control.pb.h"
#include "lockstep/v1/ingest.pb.h"
#include "lockstep/v1/journal.pb.h"

namespace lockstep::aggregator {

class StartPlan {
 public:
  // Both must outlive the plan.
  StartPlan(const v1::TraceRequest& request, const SessionLimits& limits)
      : request_(request), limits_(limits) {}

  // Returns true if each rank opens and closes its own window.
  bool triggered() const { return request_.trigger().begin() != v1::Trigger::AT_T0; }

  // Sets T0 and T1. `delivery_time` is the time after which a message has reached all daemons. A capture of
  // the past ends now.
  void Begin(const CaptureRanks& ranks, JobTime now, Nanos delivery_time);
  // Returns true if the armed clients must still choose their first step.
  bool NeedsStep(const CaptureRanks& ranks) const;
  // Chooses the first step that every waiting rank can still reach, and sets T1 again. Returns false if no
  // rank has reported its step.
  bool ChooseStep(const CaptureRanks& ranks, JobTime now, Nanos delivery_time);
  // Describes the plan for the journal, without the ranks.
  v1::JournalStart ForJournal(const CaptureRanks& ranks) const;
  // Replaces Begin, ChooseStep and EndAt of an earlier process.
  void Restore(const v1::JournalStart& start);
  // Sets T1 to an earlier time. If the user requested that, the window was not cut short.
  enum class EndedBy : uint8_t { kUser, kFault };
  void EndAt(JobTime now, EndedBy by);

  // Returns the message that starts the ranks, without the capture's id.
  v1::Start Message(const CaptureRanks& ranks) const;
  JobTime t0() const { return t0_; }
  JobTime t1() const { return t1_; }
  // Returns the length of every rank's window that the user requested last. 0: it depends on a trigger.
  Nanos requested() const { return requested_; }
  // Returns the time at which the windows of all ranks have closed. A trigger may open one at the last
  // moment.
  JobTime LatestEnd() const;
  // Returns the recorded interval: T0 to T1, or with a trigger from the first rank's begin to the last one's
  // end.
  JobInterval Window(const CaptureRanks& ranks) const;
  // Returns the requested steps by the job's numbers, if they are known.
  std::optional<capture::StepSpan> WantedSteps(const CaptureRanks& ranks) const;

 private:
  Nanos TriggerTimeout() const;
  Nanos LongestLead(const CaptureRanks& ranks) const;
  // Chooses how ranks in PyTorch's profiler begin if there is a trigger.
  v1::Start::KinetoBegin ChooseKinetoBegin(const CaptureRanks& ranks) const;
  // Returns the first step that every waiting rank can still reach if it is notified within `ahead`.
  std::optional<uint64_t> CommonStep(const CaptureRanks& ranks, JobTime now, Nanos ahead) const;
  // Returns a window for ranks in PyTorch's profiler that contains the clients' common steps. It begins
  // `ahead` of now at the earliest.
  JobInterval WindowOfSteps(const CaptureRanks& ranks, JobTime now, Nanos ahead) const;

  const v1::TraceRequest& request_;
  const SessionLimits& limits_;
  JobTime t0_;
  JobTime t1_;
  Nanos requested_;
  std::optional<uint64_t> common_step_;
  v1::Start::KinetoBegin kineto_begin_ = v1::Start::BY_ITERATION;
  JobInterval kineto_window_;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_CAPTURES_START_PLAN_H_
