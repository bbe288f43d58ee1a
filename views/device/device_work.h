// What counts of a device's work.
#ifndef LOCKSTEP_AGGREGATOR_VIEWS_DEVICE_WORK_H_
#define LOCKSTEP_AGGREGATOR_VIEWS_DEVICE_WORK_H_

#include <cstdint>
#include <vector>

#include "analysis/prepare/launches.h"
#include "capture/model/capture.h"

namespace lockstep::views {

enum class DeviceRule : uint8_t {
  kLockstep,  // all that was recorded
  // Holistic Trace Analysis': where there are two ProfilerSteps or more, only what was launched before the
  // last one began, by a call that was recorded.
  kHta,
};

using analysis::DeviceWork;

// In the order of starts. Points into `rank`.
std::vector<DeviceWork> DeviceWorkOf(const store::RankData& rank, DeviceRule rule);

}  // namespace lockstep::views

#endif  // LOCKSTEP_AGGREGATOR_VIEWS_DEVICE_WORK_H_
