// Assigns device activities to training steps, and finds the steps that are whole.
//
// A step is a ProfilerStep range (RangeKind::kStep) of the host, or a substitute from step_marks.h. Device
// work belongs to the step that launched it, even if it runs later. If no method finds steps, the whole
// window is one step. Only steps that every rank recorded whole are used.
#ifndef LOCKSTEP_ANALYSIS_PREPARE_STEPS_H_
#define LOCKSTEP_ANALYSIS_PREPARE_STEPS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/prepare/launches.h"
#include "capture/align/clock_model.h"
#include "capture/model/capture.h"

namespace lockstep::analysis {

// Values for activities outside the used steps.
inline constexpr int32_t kBeforeSteps = -1;
inline constexpr int32_t kAfterSteps = -2;

// Verdicts and noise floors need at least this many steps.
inline constexpr size_t kLeastSteps = 3;

struct RankStep {
  HostInterval host;    // the range
  HostTime device_end;  // last end of the device work launched in it; host.end without such work
  uint32_t activities = 0;
};

struct RankSteps {
  std::vector<RankStep> steps;       // one per used step
  std::vector<int32_t> of_activity;  // index of a used step, kBeforeSteps or kAfterSteps
};

enum class StepSource : uint8_t { kWindow, kRanges, kNamedRanges, kPeriod };

struct Steps {
  StepSource source = StepSource::kWindow;
  std::string how;             // description of the method for the user; empty for ranges named as steps
  std::vector<int64_t> names;  // number of each step, or its index from 0 if numbers repeat
  std::vector<RankSteps> ranks;
  std::optional<int64_t>
      begin_unknown;  // the first step, if it was left out because nothing was recorded before it
  std::vector<int64_t> unfinished;  // steps at the end whose device work the window did not hold whole
  uint32_t partial = 0;             // steps that were left out because a rank did not record them whole
  size_t count() const { return names.size(); }
  bool found() const { return source != StepSource::kWindow; }
  bool marked() const { return source == StepSource::kRanges || source == StepSource::kNamedRanges; }
};

// Delay of each rank's steps after the earliest rank's, on the job's clock: the median over the steps, by
// rank index. Null for ranks without step ranges.
std::vector<std::optional<Nanos>> StepLateness(const capture::Capture& capture,
                                               const capture::ClockModel& clock, const Steps& steps);

// The time from the first rank's begin of a step to the last end of any rank's device work for it, on the
// job's clock.
struct StepSpan {
  int64_t name;
  JobTime start, end;
};
std::vector<StepSpan> SpansOf(const capture::Capture& capture, const capture::ClockModel& clock,
                              const Steps& steps);

// `calls` has one index per rank.
Steps FindSteps(const capture::Capture& capture, const capture::ClockModel& clock,
                const std::vector<CallIndex>& calls);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_PREPARE_STEPS_H_
