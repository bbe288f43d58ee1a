// The overview: per rank what device it ran on, how busy and how full that was, and where its steps went
// (torch-tb-profiler's overview).
#ifndef LOCKSTEP_AGGREGATOR_VIEWS_OVERVIEW_H_
#define LOCKSTEP_AGGREGATOR_VIEWS_OVERVIEW_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/prepare/steps.h"
#include "analysis/time/step_breakdown.h"
#include "capture/model/capture.h"

namespace lockstep::views {

enum class OverviewRule : uint8_t {
  kLockstep,  // the report's steps; its figures of each rank are the report's own (report::RankRow) and left
              // empty here
  kTensorBoard,  // tensorboard_rules.h: figures of the time from the first step's start to the last one's
                 // end. Needs frames
};

struct StepTime {
  std::optional<int64_t> number;  // nullopt: not told
  analysis::StepBreakdown breakdown;
};

// One entry of the capture: a rank, or one of the devices of a rank that has several.
struct RankOverview {
  RankId rank;
  uint32_t device = 0;
  const store::DeviceProperties* properties = nullptr;  // null: not told; lies in the capture
  std::optional<double> gpu_utilization, sm_efficiency, occupancy;
  std::optional<double> tensor_core_fraction;  // of all kernels' time, also communication's
  // Part of the kernels' time that operators launched which could use tensor cores, and the part of that in
  // kernels that do. nullopt without frames.
  std::optional<double> eligible_fraction, eligible_tensor_core_fraction;
  std::vector<StepTime> steps;
  analysis::StepBreakdown mean;  // over the steps
};

// By the capture's entries.
std::vector<RankOverview> OverviewOf(const store::Capture& capture, const analysis::Steps& steps,
                                     OverviewRule rule);

}  // namespace lockstep::views

#endif  // LOCKSTEP_AGGREGATOR_VIEWS_OVERVIEW_H_
