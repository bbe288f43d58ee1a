// Division of each step of a rank by what its device does, and, while the device idles, by what its host
// does.
#ifndef LOCKSTEP_ANALYSIS_TIME_DEVICE_USE_H_
#define LOCKSTEP_ANALYSIS_TIME_DEVICE_USE_H_

#include <vector>

#include "analysis/prepare/collectives.h"
#include "analysis/prepare/launches.h"
#include "analysis/prepare/steps.h"
#include "base/time.h"
#include "capture/model/capture.h"

namespace lockstep::analysis {

// A host without any recorded call or operator for this long is silent.
inline constexpr Nanos kSilence = Nanos::Millis(1);

// The parts are disjoint and sum to the step.
struct DeviceUse {
  Nanos compute;
  Nanos exposed_transfer, exposed_wait, exposed_unsplit;  // as in time_partition.h
  Nanos copies;                                           // copies and sets beside no kernel
  // The device idles because its next work is not launched yet.
  Nanos input;  // the host is in the data loader; without recorded calls, any idle time beside the loader
  Nanos host_launch;  // the host is in calls or operators, or between two of them for less than kSilence
  Nanos host_silent;  // the host did nothing that was recorded
  // The device idles although its next work is launched, or the rank has no recorded calls.
  Nanos idle_other;
};

// Returns one row per used step. `parts` and `calls` are those of this rank. Pure; any thread.
std::vector<DeviceUse> DeviceUseOfSteps(const capture::Capture& capture, const capture::RankData& rank,
                                        const RankSteps& steps, const std::vector<Part>& parts,
                                        const CallIndex& calls);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_TIME_DEVICE_USE_H_
