// Computes the depths of host ranges, for readers of formats that give only times.
#ifndef LOCKSTEP_FORMATS_COMMON_NEST_RANGES_H_
#define LOCKSTEP_FORMATS_COMMON_NEST_RANGES_H_

#include <vector>

#include "capture/model/capture.h"

namespace lockstep::formats {

// Sets the depth of each range: the number of ranges of its thread around it. Sorts the ranges by start,
// outer ones first.
void NestRanges(std::vector<capture::HostRange>& ranges);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_COMMON_NEST_RANGES_H_
