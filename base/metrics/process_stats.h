// The kernel's figures about this process, under the names that Prometheus' client libraries use.
#ifndef LOCKSTEP_BASE_METRICS_PROCESS_STATS_H_
#define LOCKSTEP_BASE_METRICS_PROCESS_STATS_H_

#include <string>

#include "base/metrics/page.h"

namespace lockstep::metrics {

// `proc` is /proc, or a folder of a test. A file that cannot be read leaves its families without samples. Any
// thread may call it.
void AddProcessStats(const std::string& proc, Page& page);

}  // namespace lockstep::metrics

#endif  // LOCKSTEP_BASE_METRICS_PROCESS_STATS_H_
