// The metrics of slowdowns. docs/formats/metrics.md defines them.
#ifndef LOCKSTEP_AGGREGATOR_LIVE_SLOWDOWN_METRICS_H_
#define LOCKSTEP_AGGREGATOR_LIVE_SLOWDOWN_METRICS_H_

#include "aggregator/live/slowdowns.h"
#include "base/metrics/page.h"

namespace lockstep::aggregator {

void AddSlowdowns(const SlowdownCounts& counts, metrics::Page& page);

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_LIVE_SLOWDOWN_METRICS_H_
