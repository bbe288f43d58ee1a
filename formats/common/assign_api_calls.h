// Host calls of a process that used several devices, for readers of formats that know no more.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_DEAL_CALLS_H_
#define LOCKSTEP_AGGREGATOR_TRACE_DEAL_CALLS_H_

#include <span>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::trace {

// A call belongs to the device whose activity it started; the others to the first. `entries` are the
// process's, with their activities; at least one.
void DealApiCalls(std::vector<store::ApiCall> calls, std::span<store::RankData> entries);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_DEAL_CALLS_H_
