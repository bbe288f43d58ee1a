// Limits on the analysis of one capture in a child process.
#ifndef LOCKSTEP_AGGREGATOR_REPORTS_ANALYSIS_LIMITS_H_
#define LOCKSTEP_AGGREGATOR_REPORTS_ANALYSIS_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace lockstep::aggregator {

struct AnalysisLimits {
  uint64_t memory_bytes = uint64_t{4} << 30;
  Nanos time = Nanos::Seconds(120);  // from the start of the child; it may use kCpuFactor times as much CPU
  uint64_t rows = 20'000'000;
  size_t processes = 2;  // at the same time, of all users; one user has one
};

// The analysis uses several cores, so its CPU time may exceed its time on the clock.
inline constexpr int64_t kCpuFactor = 4;
inline constexpr unsigned kAnalysisThreads = 16;
// Size of each file of a report.
inline constexpr uint64_t kMostReportBytes = uint64_t{1} << 30;

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_REPORTS_ANALYSIS_LIMITS_H_
