// What is wrong with how a job's ranks are put on devices, as sentences for the report.
#ifndef LOCKSTEP_AGGREGATOR_REPORT_DEVICE_NOTES_H_
#define LOCKSTEP_AGGREGATOR_REPORT_DEVICE_NOTES_H_

#include <string>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::report {

// Ranks on devices of different kinds, several ranks on one device. Says nothing of ranks whose device is not
// known. `hosts`: the names of the capture's hosts.
std::vector<std::string> DeviceNotes(const store::Capture& capture, const std::vector<std::string>& hosts);

}  // namespace lockstep::report

#endif  // LOCKSTEP_AGGREGATOR_REPORT_DEVICE_NOTES_H_
