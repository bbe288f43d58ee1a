// Rows of report.json's `collectives`: one per group and operation.
#ifndef LOCKSTEP_ANALYSIS_TIME_COLLECTIVE_TABLE_H_
#define LOCKSTEP_ANALYSIS_TIME_COLLECTIVE_TABLE_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/prepare/collectives.h"
#include "capture/model/capture.h"

namespace lockstep::analysis {

// The instances of one size, in bytes of one rank.
struct SizeBandwidth {
  int64_t bytes = 0;
  uint32_t count = 0;
  double bus_gbps = 0;
};

struct CollectiveSummary {
  uint32_t group = capture::kNone;
  capture::CollectiveOp op = capture::CollectiveOp::kUnknown;
  int32_t group_size = 0;
  uint64_t count = 0;            // instances
  std::optional<int64_t> bytes;  // of one rank, summed over `bytes_count` instances; nullopt: over none
  uint64_t bytes_count = 0;      // instances with known bytes
  Nanos duration;                // summed over members
  std::optional<Nanos> wait, transfer;  // summed over members of split instances; nullopt if none is split
  std::optional<Nanos> skew_mean, skew_p50, skew_p99, skew_max;  // nullopt if the clocks are unknown
  std::vector<uint32_t> skew_counts;  // instances by SkewBin(), up to the bin of the largest skew
  // Over the instances with bytes, in GB/s. Algorithm bandwidth: bytes / least transfer time. Bus bandwidth:
  // the same times the operation's factor.
  std::optional<double> algorithm_gbps, bus_gbps;
  std::vector<SizeBandwidth> sizes;                          // the same by size, ascending
  std::vector<std::pair<uint32_t, uint64_t>> last_arrivals;  // (rank index, times), most often first
};

// Returns rows by group, then operation. Leaves out groups of a single rank.
std::vector<CollectiveSummary> SummarizeCollectives(const capture::Capture& capture,
                                                    const capture::Matches& matches,
                                                    const capture::ClockModel& clock,
                                                    const CollectiveTimes& times);

// The bin of a skew. Bin 0 is below 1 us. Each doubling has two bins, so bin k > 0 starts at 2^((k-1)/2) us.
size_t SkewBin(Nanos skew);

// Factor of the bus bandwidth: 2(n-1)/n for all-reduce, (n-1)/n for all-gather, reduce-scatter and
// all-to-all, 1 for other operations.
double BusFactor(capture::CollectiveOp op, int32_t group_size);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_TIME_COLLECTIVE_TABLE_H_
