// Compares every number of the report's collectives and efficiency with a count over the written job. The
// count does not use the code under test.
#include <map>
#include <optional>
#include <utility>

#include "gmock/gmock.h"
#include "report/counted_job_fixture.h"

namespace lockstep::report {
namespace {

using capture::CollectiveOp;
using testing::ElementsAreArray;

// Sums over all instances of one operation of one group.
struct Totals {
  std::vector<int64_t> skews;  // nanoseconds, ascending
  int64_t bytes = 0, duration = 0, waited = 0;
  uint64_t bytes_count = 0;
  double moved = 0, moving = 0;  // bytes of whole messages, nanoseconds
  struct Size {
    double moved = 0, moving = 0;
    uint32_t count = 0;
  };
  std::map<int64_t, Size> sizes;
  std::map<int, uint64_t> last;
};

Totals TotalsOf(const WrittenJob& job, size_t group, CollectiveOp op) {
  Totals t;
  const bool in_parts = op == CollectiveOp::kAllGather || op == CollectiveOp::kReduceScatter;
  const double message = in_parts ? static_cast<double>(job.groups[group].size()) : 1;
  for (const WrittenCollective& c : job.collectives) {
    if (c.group != static_cast<int>(group) || c.op != op) continue;
    int64_t earliest = c.times[0].start, least_transfer = c.times[0].length();
    for (size_t i = 0; i < c.times.size(); ++i) {
      const int64_t w = WaitOf(c, i);
      t.duration += c.times[i].length();
      t.waited += w;
      earliest = std::min(earliest, c.times[i].start);
      least_transfer = std::min(least_transfer, c.times[i].length() - w);
    }
    t.skews.push_back(1000 * (LatestStart(c) - earliest));
    if (LastArriver(c) >= 0) ++t.last[LastArriver(c)];
    if (c.bytes < 0) continue;
    ++t.bytes_count;
    t.bytes += c.bytes;
    t.moved += static_cast<double>(c.bytes) * message;
    t.moving += static_cast<double>(1000 * least_transfer);
    if (c.bytes == 0 || least_transfer == 0) continue;
    Totals::Size& size = t.sizes[c.bytes];
    size.moved += static_cast<double>(c.bytes) * message;
    size.moving += static_cast<double>(1000 * least_transfer);
    ++size.count;
  }
  std::sort(t.skews.begin(), t.skews.end());
  return t;
}

double BusFactorOf(CollectiveOp op, double ranks) {
  if (op == CollectiveOp::kBroadcast || op == CollectiveOp::kReduce) return 1;
  return (op == CollectiveOp::kAllReduce ? 2 : 1) * (ranks - 1) / ranks;
}

void ExpectSizes(const CollectiveRow& row, const Totals& t, double bus_factor) {
  ASSERT_EQ(row.sizes_bytes.size(), t.sizes.size());
  ASSERT_EQ(row.sizes_busbw_gbps.size(), t.sizes.size());
  ASSERT_EQ(row.sizes_counts.size(), t.sizes.size());
  size_t k = 0;
  for (const auto& [bytes, size] : t.sizes) {
    const double bandwidth = bus_factor * size.moved / size.moving;
    EXPECT_EQ(row.sizes_bytes[k], bytes);
    EXPECT_EQ(row.sizes_counts[k], size.count);
    EXPECT_NEAR(row.sizes_busbw_gbps[k++], bandwidth, 1e-9 * bandwidth);
  }
}

void ExpectRow(const CollectiveRow& row, const Totals& t, CollectiveOp op, size_t ranks) {
  EXPECT_EQ(row.group_size, static_cast<int32_t>(ranks));
  EXPECT_EQ(row.count, t.skews.size());
  EXPECT_EQ(row.bytes, t.bytes_count > 0 ? std::optional(t.bytes) : std::nullopt);
  EXPECT_EQ(row.bytes_count, t.bytes_count);
  EXPECT_EQ(row.duration, Micros(t.duration));
  EXPECT_EQ(row.wait, Micros(t.waited));
  EXPECT_EQ(row.transfer, Micros(t.duration - t.waited));
  // Nearest rank: the smallest value that at least this percentage of the values does not exceed.
  const auto percentile = [&](size_t percent) {
    size_t k = 0;
    while (100 * (k + 1) < percent * t.skews.size()) ++k;
    return Nanos(t.skews[k]);
  };
  int64_t sum = 0;
  for (int64_t skew : t.skews) sum += skew;
  EXPECT_EQ(row.skew.mean, Nanos(sum / static_cast<int64_t>(t.skews.size())));
  EXPECT_EQ(row.skew.p50, percentile(50));
  EXPECT_EQ(row.skew.p99, percentile(99));
  EXPECT_EQ(row.skew.max, Nanos(t.skews.back()));
  ASSERT_EQ(row.algbw_gbps.has_value(), t.moving > 0);
  const double algorithm = t.moving > 0 ? t.moved / t.moving : 0;
  EXPECT_NEAR(row.algbw_gbps.value_or(0), algorithm, 1e-9 * algorithm);
  const double bus_factor = BusFactorOf(op, static_cast<double>(ranks));
  EXPECT_NEAR(row.busbw_gbps.value_or(0), bus_factor * algorithm, 1e-9 * algorithm);
  ExpectSizes(row, t, bus_factor);
  std::vector<std::pair<int, uint64_t>> expected(t.last.begin(), t.last.end()), reported;
  std::stable_sort(expected.begin(), expected.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const LastArrivalsRow& l : row.last_arrivals) reported.emplace_back(l.rank.value(), l.count);
  EXPECT_THAT(reported, ElementsAreArray(expected));
}

TEST(ReportCollectives, RowsAreSumsMeansAndPercentilesOfInstances) {
  constexpr std::pair<CollectiveOp, const char*> kOps[] = {
      {CollectiveOp::kAllReduce, "all_reduce"},         {CollectiveOp::kAllGather, "all_gather"},
      {CollectiveOp::kReduceScatter, "reduce_scatter"}, {CollectiveOp::kAllToAll, "all_to_all"},
      {CollectiveOp::kBroadcast, "broadcast"},          {CollectiveOp::kReduce, "reduce"}};
  ForEachJob([&](const WrittenJob& job, const Report& report) {
    size_t rows = 0;
    for (size_t g = 0; g < job.groups.size(); ++g) {
      for (const auto& op : kOps) {
        const Totals totals = TotalsOf(job, g, op.first);
        if (totals.skews.empty()) continue;
        SCOPED_TRACE(job.names[g] + " " + op.second);
        ++rows;
        const auto row = std::find_if(
            report.collectives.begin(), report.collectives.end(),
            [&](const CollectiveRow& c) { return c.group == job.names[g] && c.op == op.second; });
        ASSERT_NE(row, report.collectives.end());
        ExpectRow(*row, totals, op.first, job.groups[g].size());
        std::vector<int> members;
        for (const RankId rank : row->members) members.push_back(rank.value());
        EXPECT_THAT(members, testing::UnorderedElementsAreArray(job.groups[g]));
      }
    }
    EXPECT_EQ(report.collectives.size(), rows);
  });
}

TEST(ReportEfficiencies, EfficienciesAreUnionsOverElapsedTime) {
  ForEachJob([](const WrittenJob& job, const Report& report) {
    int64_t first = LastOf(job), last = 0;
    std::vector<double> compute, active;
    for (size_t r = 0; r < job.ranks.size(); ++r) {
      for (const WrittenOp& op : job.ranks[r].ops)
        first = std::min(first, op.time.start), last = std::max(last, op.time.end);
      const Clock computes = Marked(job, r, IsCompute),
                  all = Marked(job, r, [](const WrittenOp&) { return true; });
      compute.push_back(static_cast<double>(Count(all.size(), [&](size_t t) { return computes[t]; })));
      active.push_back(static_cast<double>(Count(all.size(), [&](size_t t) { return all[t]; })));
    }
    const auto elapsed = static_cast<double>(last - first);
    ExpectFactors(report.efficiency.factors, compute, active, elapsed);
    for (size_t r = 0; r < job.ranks.size(); ++r)
      EXPECT_NEAR(report.ranks[r].parallel_efficiency.value(), compute[r] / elapsed, 1e-12);
    size_t groups = 0;
    for (size_t g = 1; g < job.groups.size(); ++g) {
      const bool met =
          std::any_of(job.collectives.begin(), job.collectives.end(),
                      [&](const WrittenCollective& c) { return c.group == static_cast<int>(g); });
      if (!met) continue;
      ASSERT_LT(groups, report.efficiency.groups.size());
      const GroupEfficiencyRow& row = report.efficiency.groups[groups++];
      EXPECT_EQ(row.group, job.names[g]);
      EXPECT_EQ(row.ranks, 2u);
      const auto a = static_cast<size_t>(job.groups[g][0]), b = static_cast<size_t>(job.groups[g][1]);
      ExpectFactors(row.factors, {compute[a], compute[b]}, {active[a], active[b]}, elapsed);
    }
    EXPECT_EQ(report.efficiency.groups.size(), groups);
  });
}

}  // namespace
}  // namespace lockstep::report
