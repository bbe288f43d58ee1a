// The overview: per rank its device, how busy and how full it was, and the time of its steps
// (torch-tb-profiler's overview).
#ifndef LOCKSTEP_VIEWS_DEVICE_OVERVIEW_H_
#define LOCKSTEP_VIEWS_DEVICE_OVERVIEW_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/prepare/steps.h"
#include "analysis/time/step_breakdown.h"
#include "capture/model/capture.h"

namespace lockstep::views {

enum class OverviewRule : uint8_t {
  kLockstep,     // the report's steps; figures that report::RankRow has are left empty
  kTensorBoard,  // tensorboard_rules.h: figures from the start of the first step to the end of the last one.
                 // Needs frames
};

struct StepTime {
  std::optional<int64_t> number;  // nullopt: unknown
  analysis::StepBreakdown breakdown;
};

// One entry of the capture: a rank, or one device of a rank with several devices.
struct RankOverview {
  RankId rank;
  uint32_t device = 0;
  const capture::DeviceProperties* properties = nullptr;  // null: unknown; points into the capture
  std::optional<double> gpu_utilization, sm_efficiency, occupancy;
  std::optional<double> tensor_core_fraction;  // of the time of all kernels, including communication
  // The part of the kernels' time whose operators can use tensor cores, and the part of that in kernels that
  // use them. nullopt: the capture has no frames.
  std::optional<double> eligible_fraction, eligible_tensor_core_fraction;
  std::vector<StepTime> steps;
  analysis::StepBreakdown mean;  // over the steps
};

// Returns one row per entry of the capture.
std::vector<RankOverview> OverviewOf(const capture::Capture& capture, const analysis::Steps& steps,
                                     OverviewRule rule);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_DEVICE_OVERVIEW_H_
