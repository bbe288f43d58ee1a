// The metrics of slowdowns and hangs. docs/formats/metrics.md defines them.
#ifndef LOCKSTEP_AGGREGATOR_NOTICE_NOTICE_METRICS_H_
#define LOCKSTEP_AGGREGATOR_NOTICE_NOTICE_METRICS_H_

#include "aggregator/notice/hang_watch.h"
#include "aggregator/notice/slowdowns.h"
#include "base/metrics/page.h"

namespace lockstep::aggregator {

void AddSlowdowns(const SlowdownCounts& counts, metrics::Page& page);
void AddHangs(const HangCounts& counts, metrics::Page& page);

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_NOTICE_NOTICE_METRICS_H_
