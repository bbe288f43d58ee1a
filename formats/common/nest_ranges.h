// Depths of host ranges, for readers of formats that only give times.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_NEST_RANGES_H_
#define LOCKSTEP_AGGREGATOR_TRACE_NEST_RANGES_H_

#include <vector>

#include "capture/model/capture.h"

namespace lockstep::trace {

// How deep each range lies in the others of its thread. Sorts them, outer ones first.
void NestRanges(std::vector<store::HostRange>& ranges);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_NEST_RANGES_H_
