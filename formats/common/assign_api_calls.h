// Divides the host calls of a process over the devices that it used, for formats that do not name the device.
#ifndef LOCKSTEP_FORMATS_COMMON_ASSIGN_API_CALLS_H_
#define LOCKSTEP_FORMATS_COMMON_ASSIGN_API_CALLS_H_

#include <span>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::formats {

// A call goes to the device whose activity it launched. All other calls go to the first device. `entries` are
// the entries of one process with their activities; there is at least one.
void AssignApiCallsToDevices(std::vector<capture::ApiCall> calls, std::span<capture::RankData> entries);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_COMMON_ASSIGN_API_CALLS_H_
