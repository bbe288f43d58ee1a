// Training steps: which step each device activity and host call belongs to, and which steps are whole.
//
// A step is a ProfilerStep range (RangeKind::kStep) of the host, or what stands for one (step_marks.h); the
// device work launched inside it is the step's, whenever the device got to it. Where nothing tells steps
// apart, the whole window is one. Only steps that every rank recorded whole are used.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_STEPS_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_STEPS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/prepare/launches.h"
#include "capture/align/clock_model.h"
#include "capture/model/capture.h"

namespace lockstep::analysis {

// Positions relative to the steps that are used.
inline constexpr int32_t kBeforeSteps = -1;
inline constexpr int32_t kAfterSteps = -2;

// Verdicts and noise floors need at least this many.
inline constexpr size_t kLeastSteps = 3;

struct RankStep {
  HostInterval host;    // the range
  HostTime device_end;  // last end of the device work launched in it; host.end where there is none
  uint32_t activities = 0;
};

struct RankSteps {
  std::vector<RankStep> steps;       // one per used step
  std::vector<int32_t> of_activity;  // index of a used step, kBeforeSteps or kAfterSteps
};

enum class StepSource : uint8_t { kWindow, kRanges, kNamedRanges, kPeriod };

struct Steps {
  StepSource source = StepSource::kWindow;
  std::string how;             // how they were found, in words; empty where ranges say what they are
  std::vector<int64_t> names;  // the number each step carries, or its place from 0 where numbers repeat
  std::vector<RankSteps> ranks;
  uint32_t partial = 0;  // steps that were seen and left out because some rank has not recorded them whole
  size_t count() const { return names.size(); }
  bool found() const { return source != StepSource::kWindow; }
  bool marked() const { return source == StepSource::kRanges || source == StepSource::kNamedRanges; }
};

// How much later than on the earliest rank each rank's steps begin, on the job's clock: median over the
// steps, by rank index. Null for ranks without step ranges.
std::vector<std::optional<Nanos>> StepLateness(const store::Capture& capture, const align::ClockModel& clock,
                                               const Steps& steps);

// From the first rank's begin of a step to the end of the last one's device work for it, on the job's clock.
struct StepSpan {
  int64_t name;
  JobTime start, end;
};
std::vector<StepSpan> SpansOf(const store::Capture& capture, const align::ClockModel& clock,
                              const Steps& steps);

// `calls` has one index per rank.
Steps FindSteps(const store::Capture& capture, const align::ClockModel& clock,
                const std::vector<CallIndex>& calls);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_STEPS_H_
