#include "analysis/time/collective_table.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/container/flat_hash_set.h"
#include "analysis/prepare/stats.h"

namespace lockstep::analysis {
namespace {

using capture::CollectiveOp;
using capture::kNone;

struct Gathered {
  CollectiveSummary row;
  int64_t bytes = 0;
  Nanos wait, transfer;
  bool any_split = false;
  struct Moved {
    double bytes = 0, ns = 0;
    uint32_t count = 0;
  };
  std::map<int64_t, Moved> moved;  // by bytes of one rank; of instances with bytes and a transfer time
  std::vector<int64_t> skews;
  std::map<uint32_t, uint64_t> last;
  // Kernels of several collectives that are counted: rank index and activity.
  absl::flat_hash_set<std::pair<uint32_t, uint32_t>> kernels;
};

bool HasSeveralCollectives(const capture::RankData& rank, uint32_t row) {
  const auto same = [&](size_t other) {
    return other < rank.collectives.size() &&
           rank.collectives[other].activity == rank.collectives[row].activity;
  };
  return (row > 0 && same(row - 1)) || same(row + 1);
}

// NCCL's algorithm bandwidth counts the whole message. If each rank passes one part, that is the part times
// the number of ranks.
double MessageBytes(CollectiveOp op, int64_t bytes, int32_t size) {
  const bool in_parts = op == CollectiveOp::kAllGather || op == CollectiveOp::kReduceScatter;
  return static_cast<double>(bytes) * (in_parts ? size : 1);
}

void Add(const capture::Capture& capture, const capture::ClockModel& clock, const CollectiveTimes& times,
         const capture::Instance& instance, const InstanceTiming& timing, Gathered& out) {
  ++out.row.count;
  int64_t bytes = -1;
  bool comparable = true;
  for (const capture::Member& m : instance.members) {
    const capture::RankData& rank = capture.ranks[m.rank_index];
    const capture::Collective& c = rank.collectives[m.collective];
    const capture::DeviceActivity& a = rank.activities[c.activity];
    bytes = std::max(bytes, c.bytes);
    comparable &=
        PairBound(clock, rank.host, capture.ranks[instance.members[0].rank_index].host) != Nanos::Max();
    // A kernel's time counts once, however many of its collectives are in this row.
    if (HasSeveralCollectives(rank, m.collective) && !out.kernels.insert({m.rank_index, c.activity}).second)
      continue;
    const Nanos duration = std::max(Nanos(), a.end - a.start);
    out.row.duration += duration;
    const Part& part = times.parts[m.rank_index][m.collective];
    if (part.split) {
      out.any_split = true;
      out.wait += part.wait;
      out.transfer += duration - part.wait;
    }
  }
  out.row.bytes_count += bytes >= 0 ? 1 : 0;
  out.bytes += std::max<int64_t>(0, bytes);
  if (bytes > 0 && timing.split && !timing.partial && timing.transfer > Nanos()) {
    Gathered::Moved& moved = out.moved[bytes];
    moved.bytes += MessageBytes(instance.op, bytes, out.row.group_size);
    moved.ns += static_cast<double>(timing.transfer.ns());
    ++moved.count;
  }
  if (comparable) out.skews.push_back(timing.skew.ns());
  if (timing.last != kNone) ++out.last[instance.members[timing.last].rank_index];
}

CollectiveSummary Finished(Gathered& g) {
  CollectiveSummary row = std::move(g.row);
  if (row.bytes_count > 0) row.bytes = g.bytes;
  if (g.any_split) {
    row.wait = g.wait;
    row.transfer = g.transfer;
  }
  if (!g.skews.empty()) {
    int64_t sum = 0;
    for (int64_t s : g.skews) {
      sum += s;
      const size_t bin = SkewBin(Nanos(s));
      if (row.skew_counts.size() <= bin) row.skew_counts.resize(bin + 1);
      ++row.skew_counts[bin];
    }
    row.skew_mean = Nanos(sum / static_cast<int64_t>(g.skews.size()));
    row.skew_p50 = Nanos(PercentileInPlace(g.skews, 0.5));
    row.skew_p99 = Nanos(PercentileInPlace(g.skews, 0.99));
    row.skew_max = Nanos(*std::max_element(g.skews.begin(), g.skews.end()));
  }
  const double factor = BusFactor(row.op, row.group_size);
  double moved = 0, moving_ns = 0;
  for (const auto& [bytes, m] : g.moved) {
    row.sizes.push_back({bytes, m.count, m.bytes / m.ns * factor});
    moved += m.bytes;
    moving_ns += m.ns;
  }
  if (moving_ns > 0) {
    row.algorithm_gbps = moved / moving_ns;  // bytes per nanosecond are gigabytes per second
    row.bus_gbps = *row.algorithm_gbps * factor;
  }
  row.last_arrivals.assign(g.last.begin(), g.last.end());
  std::stable_sort(row.last_arrivals.begin(), row.last_arrivals.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return row;
}

}  // namespace

size_t SkewBin(Nanos skew) {
  if (skew < Nanos::Micros(1)) return 0;
  return 1 + static_cast<size_t>(2 * std::log2(static_cast<double>(skew.ns()) * 1e-3));
}

double BusFactor(CollectiveOp op, int32_t group_size) {
  if (group_size <= 1) return 1;
  const double n = group_size;
  switch (op) {
    case CollectiveOp::kAllReduce:
      return 2 * (n - 1) / n;
    case CollectiveOp::kAllGather:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllToAll:
      return (n - 1) / n;
    default:
      return 1;
  }
}

std::vector<CollectiveSummary> SummarizeCollectives(const capture::Capture& capture,
                                                    const capture::Matches& matches,
                                                    const capture::ClockModel& clock,
                                                    const CollectiveTimes& times) {
  std::map<std::pair<uint32_t, CollectiveOp>, Gathered> rows;
  for (size_t n = 0; n < matches.instances.size(); ++n) {
    const capture::Instance& instance = matches.instances[n];
    if (instance.group >= capture.groups.size()) continue;
    Gathered& g = rows[{instance.group, instance.op}];
    g.row.group = instance.group;
    g.row.op = instance.op;
    const capture::Group& group = capture.groups[instance.group];
    g.row.group_size = std::max<int32_t>({group.size, static_cast<int32_t>(group.members.size()),
                                          static_cast<int32_t>(instance.members.size()), g.row.group_size});
    Add(capture, clock, times, instance, times.instances[n], g);
  }
  std::vector<CollectiveSummary> out;
  for (auto& [key, g] : rows) {
    if (g.row.group_size > 1) out.push_back(Finished(g));
  }
  return out;
}

}  // namespace lockstep::analysis
