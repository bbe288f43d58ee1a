// DeviceNotes(): warns in the report about the placement of a job's ranks on devices.
#ifndef LOCKSTEP_REPORT_DEVICE_NOTES_H_
#define LOCKSTEP_REPORT_DEVICE_NOTES_H_

#include <string>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::report {

// Returns sentences about ranks on devices of different kinds, and about several ranks on one device. Ranks
// with an unknown device are left out. `hosts` are the names of the capture's hosts.
std::vector<std::string> DeviceNotes(const capture::Capture& capture, const std::vector<std::string>& hosts);

}  // namespace lockstep::report

#endif  // LOCKSTEP_REPORT_DEVICE_NOTES_H_
