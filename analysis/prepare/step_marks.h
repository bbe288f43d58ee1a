// Where each rank's training steps begin and end: from ranges that say so, from a range that comes once per
// step whatever it is called, or from the period of what every rank launches.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_STEP_MARKS_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_STEP_MARKS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/prepare/launches.h"
#include "capture/align/clock_model.h"
#include "capture/model/capture.h"

namespace lockstep::analysis {

// One step of one rank, as its host saw it.
struct StepMark {
  HostInterval host;
  std::optional<int64_t> number;  // the number its name carries
  bool whole = false;             // begin and end were recorded
  uint32_t activities = 0;        // device work launched in it; the caller's to fill
};

struct MarkedSteps {
  std::vector<std::vector<StepMark>> of_rank;  // by rank index; empty for ranks without device activity
  std::string how;  // what the marks are, in words; empty for ranges that name themselves steps
};

// The moment that decides an activity's step: its launch, or where that is unknown its own start.
HostTime Issued(const store::RankData& rank, const CallIndex& calls, const store::DeviceActivity& a);

// Ranges that name themselves steps (RangeKind::kStep). nullopt unless every rank that did anything has some.
std::optional<MarkedSteps> StepsFromStepRanges(const store::Capture& capture);

// Of the ranges that come at least three times on every rank, one after the other and with nearly all
// launches inside, those that last longest ("train_step", "batch 17 of 500": names are compared without their
// numbers).
std::optional<MarkedSteps> StepsFromNamedRanges(const store::Capture& capture,
                                                const std::vector<CallIndex>& calls);

// Kernels and copies that come once per period on every rank give its length; a step begins after the longest
// gap that recurs in it, at the same moment of the period on every rank. At least three periods must have
// been recorded. `clock` puts the ranks on one clock.
std::optional<MarkedSteps> StepsFromPeriod(const store::Capture& capture, const align::ClockModel& clock,
                                           const std::vector<CallIndex>& calls);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_STEP_MARKS_H_
