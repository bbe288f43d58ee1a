// report.json's `collectives`: one row per group and operation.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_COLLECTIVE_TABLE_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_COLLECTIVE_TABLE_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/prepare/collectives.h"
#include "capture/model/capture.h"

namespace lockstep::analysis {

struct CollectiveSummary {
  uint32_t group = store::kNone;
  store::CollectiveOp op = store::CollectiveOp::kUnknown;
  int32_t group_size = 0;
  uint64_t count = 0;                   // instances
  std::optional<int64_t> bytes;         // of one rank, summed over instances; nullopt where any is unknown
  Nanos duration;                       // summed over members
  std::optional<Nanos> wait, transfer;  // summed over members of split instances; nullopt when none is split
  std::optional<Nanos> skew_mean, skew_p50, skew_p99, skew_max;  // nullopt where the clocks say nothing
  std::vector<uint32_t> skew_counts;  // instances by SkewBin(), as many as the largest skew needs
  // Over the instances with bytes: bytes / least transfer time; bus bandwidth adds the operation's factor.
  std::optional<double> algorithm_gbps, bus_gbps;
  std::vector<std::pair<uint32_t, uint64_t>> last_arrivals;  // (rank index, times), most often first
};

// By group, then operation. Instances of single-rank groups are left out.
std::vector<CollectiveSummary> SummarizeCollectives(const store::Capture& capture,
                                                    const align::Matches& matches,
                                                    const align::ClockModel& clock,
                                                    const CollectiveTimes& times);

// The bin of a skew: 0 below 1 us, then two to each doubling, so that bin k > 0 starts at 2^((k-1)/2) us.
size_t SkewBin(Nanos skew);

// 2(n-1)/n for all-reduce, (n-1)/n for all-gather, reduce-scatter and all-to-all, 1 for the rest.
double BusFactor(store::CollectiveOp op, int32_t group_size);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_COLLECTIVE_TABLE_H_
