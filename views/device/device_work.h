// Selects the device work that counts in the views of devices.
#ifndef LOCKSTEP_VIEWS_DEVICE_DEVICE_WORK_H_
#define LOCKSTEP_VIEWS_DEVICE_DEVICE_WORK_H_

#include <cstdint>
#include <vector>

#include "analysis/prepare/launches.h"
#include "capture/model/capture.h"

namespace lockstep::views {

enum class DeviceRule : uint8_t {
  kLockstep,  // all recorded work
  // The rule of Holistic Trace Analysis. With two or more ProfilerSteps, only work counts that a recorded
  // call launched before the last step began.
  kHta,
};

using analysis::DeviceWork;

// Returns the work in the order of starts. It points into `rank`.
std::vector<DeviceWork> DeviceWorkOf(const capture::RankData& rank, DeviceRule rule);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_DEVICE_DEVICE_WORK_H_
