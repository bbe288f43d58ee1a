// Compares the numbers of the report's `capture` (window, clocks, matching, losses) with the written records
// and with true clocks.
#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "capture/model/timeline_builder_fixture.h"
#include "gtest/gtest.h"
#include "report/report.h"
#include "tests/support/report_check.h"

namespace lockstep::report {
namespace {

using capture::MatchSource;
using capture::TimelineBuilder;

// ---- Matching

// All members leave an instance at the same time, 1 ms after the previous instance. Members that are not in
// `recorded` have no record of it.
struct Instance {
  std::vector<int> recorded;
  bool conflict = false;
  std::vector<int64_t> stays;  // recorded durations, microseconds; drawn by Write()
};

struct DrawnCommunicator {
  std::string key;
  std::vector<int> members;
  MatchSource source;
  capture::GroupOrigin origin = capture::GroupOrigin::kStated;
  std::vector<Instance> instances;
};

void Write(DrawnCommunicator& c, uint32_t stream, std::mt19937_64& random, TimelineBuilder& t) {
  const uint32_t group = t.Group(c.key, std::vector<int32_t>(c.members.begin(), c.members.end()));
  for (size_t n = 0; n < c.instances.size(); ++n) {
    const double end = 1000.0 * static_cast<double>(n + 1);
    const std::vector<int>& recorded = c.instances[n].recorded;
    for (int r : recorded) {
      c.instances[n].stays.push_back(100 + static_cast<int64_t>(random() % 300));
      const double start = end - static_cast<double>(c.instances[n].stays.back());
      const bool numbered = c.source == MatchSource::kNcclSequence || c.source == MatchSource::kGroupSequence;
      const int64_t bytes = c.instances[n].conflict && r == recorded[0] ? 4096 : 1024;
      const int64_t sequence = numbered ? static_cast<int64_t>(7 + n) : -1;
      t.Rank(r).Communication({.group = group, .source = c.source, .sequence = sequence, .bytes = bytes},
                              start, end - start, stream);
      if (c.source != MatchSource::kGraph) continue;
      capture::RankData& data = t.Rank(r).data();
      data.activities.back().detail = static_cast<uint32_t>(data.kernel_details.size());
      data.kernel_details.push_back({.graph = 3, .graph_node = 5});
    }
  }
}

// Draws a communicator in which some records are lost, window edges cut some instances, and some instances
// are contradictory.
DrawnCommunicator Drawn(const std::string& key, const std::vector<int>& members, MatchSource source,
                        std::mt19937_64& random) {
  DrawnCommunicator c{.key = key, .members = members, .source = source};
  const size_t count = 40;
  std::map<int, size_t> first, last;
  for (int r : members) {
    first[r] = random() % 3;
    last[r] = count - random() % 3;
  }
  for (size_t n = 0; n < count; ++n) {
    Instance i{.conflict = n == 20 || n == 30};
    for (int r : members) {
      const bool in_window = n >= first[r] && n < last[r];
      // No record is lost near the edges of a window or in contradictory instances, so that the records still
      // show the window.
      const bool safe = n < 4 || n >= count - 4 || i.conflict;
      if (in_window && (safe || random() % 6 != 0)) i.recorded.push_back(r);
    }
    c.instances.push_back(i);
  }
  return c;
}

struct Counted {
  uint64_t usable = 0, partial = 0, matched = 0, unmatched = 0, conflicts = 0, cut = 0, lost = 0;
  std::map<int, int64_t> waited, transferred, unsplit, caused;  // by rank, microseconds
};

// The member that stayed shortest came last, and each other member waited for the time that it stayed longer.
// This needs no clock. In an instance that lacks a member, the waiting is only a lower limit, so the time is
// not split.
void AddTimes(const Instance& i, bool usable, bool complete, Counted& out) {
  const size_t last = static_cast<size_t>(std::min_element(i.stays.begin(), i.stays.end()) - i.stays.begin());
  for (size_t m = 0; m < i.recorded.size(); ++m) {
    const int64_t wait = i.stays[m] - i.stays[last];
    if (usable) out.caused[i.recorded[last]] += wait;
    if (complete) {
      out.waited[i.recorded[m]] += wait;
      out.transferred[i.recorded[m]] += i.stays[last];
    } else {
      out.unsplit[i.recorded[m]] += i.stays[m];
    }
  }
}

void CountCollectives(const DrawnCommunicator& c, const std::set<int>& ranks, Counted& out) {
  for (size_t n = 0; n < c.instances.size(); ++n) {
    const Instance& i = c.instances[n];
    if (i.recorded.empty()) continue;
    if (i.conflict) {
      out.unmatched += i.recorded.size();
      out.conflicts += i.recorded.size();
      AddTimes(i, false, false, out);
      continue;
    }
    bool cut = false;
    for (int r : c.members) {
      if (!ranks.contains(r) || std::find(i.recorded.begin(), i.recorded.end(), r) != i.recorded.end())
        continue;
      bool before = false, after = false;
      for (size_t m = 0; m < c.instances.size(); ++m) {
        const auto& there = c.instances[m].recorded;
        if (std::find(there.begin(), there.end(), r) == there.end()) continue;
        before |= m < n;
        after |= m > n;
      }
      cut |= !before || !after;
    }
    const bool complete = i.recorded.size() == c.members.size();
    AddTimes(i, !cut && i.recorded.size() > 1, complete, out);
    if (cut) {
      out.cut += i.recorded.size();
    } else if (i.recorded.size() == 1) {
      out.lost += 1;
    } else {
      ++out.usable;
      out.partial += complete ? 0 : 1;
      out.matched += i.recorded.size();
    }
  }
}

TEST(ReportCapture, MatchingCountsEachSourceAndPartialInstancesAreUnsplit) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const int ranks = 4 + static_cast<int>(random() % 5);
    std::vector<int> all;
    for (int r = 0; r < ranks; ++r) all.push_back(r);
    std::vector<DrawnCommunicator> groups = {
        Drawn("by number", all, MatchSource::kNcclSequence, random),
        Drawn("by the framework's", {0, 2, 3}, MatchSource::kGroupSequence, random),
        // Rank 20 has no records.
        Drawn("with one missing", {0, 1, 2, 20}, MatchSource::kNcclSequence, random)};
    for (Instance& i : groups[2].instances) std::erase(i.recorded, 20);
    const auto whole = [&](const char* key, const std::vector<int>& members, MatchSource source,
                           capture::GroupOrigin origin) {
      DrawnCommunicator c{.key = key, .members = members, .source = source, .origin = origin};
      c.instances.assign(5 + random() % 20, {.recorded = members});
      groups.push_back(c);
    };
    whole("by order", {0, 1}, MatchSource::kOrder, capture::GroupOrigin::kStated);
    whole("by graph", {2, 3}, MatchSource::kGraph, capture::GroupOrigin::kStated);
    whole("found", {1, 2}, MatchSource::kOrder, capture::GroupOrigin::kInferred);
    TimelineBuilder t;
    for (int r : all) t.Rank(r);
    for (size_t g = 0; g < groups.size(); ++g) Write(groups[g], static_cast<uint32_t>(20 + g), random, t);
    capture::Capture capture = t.Build();
    for (size_t g = 0; g < groups.size(); ++g) capture.groups[g].origin = groups[g].origin;
    const Report report = Analyze(capture).report;
    tests::CheckedJson(report);
    const MatchingRow& reported = report.capture.matching;
    std::vector<Counted> of(groups.size());
    Counted sum;
    for (size_t g = 0; g < groups.size(); ++g) {
      CountCollectives(groups[g], {all.begin(), all.end()}, of[g]);
      CountCollectives(groups[g], {all.begin(), all.end()}, sum);
    }
    EXPECT_EQ(reported.by.nccl_seq, of[0].usable + of[2].usable);
    EXPECT_EQ(reported.by.pg_seq, of[1].usable);
    EXPECT_EQ(reported.by.order, of[3].usable);
    EXPECT_EQ(reported.by.graph, of[4].usable);
    EXPECT_EQ(reported.by.inferred, of[5].usable);
    EXPECT_EQ(reported.instances, sum.usable);
    EXPECT_EQ(reported.partial, sum.partial);
    EXPECT_EQ(reported.conflicts, sum.conflicts);
    EXPECT_EQ(reported.unmatched, sum.unmatched);
    EXPECT_EQ(reported.cut_by_window, sum.cut);
    EXPECT_EQ(reported.partner_lost, sum.lost);
    EXPECT_NEAR(reported.matched_fraction.value(),
                static_cast<double>(sum.matched) / static_cast<double>(sum.matched + sum.unmatched), 1e-12);
    for (const RankRow& rank : report.ranks) {
      const int r = rank.rank.value();
      EXPECT_EQ(rank.wait, Nanos::Micros(sum.waited[r]));
      EXPECT_EQ(rank.transfer, Nanos::Micros(sum.transferred[r]));
      EXPECT_EQ(rank.unsplit, Nanos::Micros(sum.unsplit[r]));
      EXPECT_EQ(rank.caused_wait, Nanos::Micros(sum.caused[r]));
    }
    for (const uint64_t n : {sum.partial, sum.conflicts, sum.cut, sum.lost})
      EXPECT_GT(n, 0u) << "the case occurs";
  }
}

// ---- Clocks and window

struct TrueClock {
  double offset_us, drift;
  double Local(double job_us) const { return job_us + offset_us + drift * job_us; }
};

// The request and the answer take 20 to 300 us each. The other side answers 10 us after it receives the
// request.
std::vector<capture::ClockExchange> ExchangesOf(const TrueClock& clock, std::mt19937_64& random) {
  std::vector<capture::ClockExchange> out;
  for (double at = 0; at < 3'000'000; at += 50'000) {
    const double there = at + 20 + static_cast<double>(random() % 280),
                 back = there + 10 + 20 + static_cast<double>(random() % 280);
    out.push_back({.t1 = TimelineBuilder::At(clock.Local(at)),
                   .t2 = JobTime(TimelineBuilder::At(there).ns()),
                   .t3 = JobTime(TimelineBuilder::At(there + 10).ns()),
                   .t4 = TimelineBuilder::At(clock.Local(back)),
                   .monotonic = MonoTime(static_cast<int64_t>(1000 * at))});
  }
  return out;
}

TEST(ReportCapture, TheWindowAndHostClocksAreExactWithinTheBound) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> unit(-1, 1);
    const size_t hosts = 2 + random() % 4;
    std::vector<TrueClock> clocks;
    for (size_t h = 0; h < hosts; ++h) clocks.push_back({5000 * unit(random), 40e-6 * unit(random)});
    TimelineBuilder t;
    std::vector<int32_t> members;
    for (size_t h = 0; h < hosts; ++h) members.push_back(static_cast<int32_t>(h));
    const uint32_t all = t.Group("all", members);
    for (int i = 0; i < 60; ++i) {
      std::vector<double> came;
      for (size_t h = 0; h < hosts; ++h) came.push_back(20'000.0 * i + static_cast<double>(random() % 800));
      const double end = *std::max_element(came.begin(), came.end()) + 60;
      for (size_t h = 0; h < hosts; ++h) {
        const double start = clocks[h].Local(came[h]),
                     stop = clocks[h].Local(end + static_cast<double>(random() % 3));
        t.Rank(members[h], "host" + std::to_string(h)).AllReduce(all, start, stop - start);
      }
    }
    // This is long after the ranks' last collective, so clocks were not compared in the middle of the window.
    for (size_t h = 0; h < hosts; ++h) t.Rank(members[h]).Kernel("k", clocks[h].Local(3'000'000), 10);
    capture::Capture capture = t.Build();
    const bool asked =
        seed % 2 == 0;  // true: with exchanges over the network; the job's clock is then the aggregator's
    for (size_t h = 0; asked && h < hosts; ++h) capture.hosts[h].exchanges = ExchangesOf(clocks[h], random);
    const Analysis analysis = Analyze(capture);
    const CaptureRow& row = analysis.report.capture;
    ASSERT_EQ(row.clock.hosts.size(), hosts);
    EXPECT_EQ(row.hosts, hosts);
    // Converts a host's stamp to the job's clock by the values of the rows.
    const auto middle =
        static_cast<double>(row.start_unix_ns.value()) + 0.5 * static_cast<double>(row.duration.value().ns());
    const auto to_job = [&](size_t h, HostTime at) {
      const double offset = static_cast<double>(row.clock.hosts[h].offset.value().ns()),
                   drift = row.clock.hosts[h].drift_ppm.value() * 1e-6;
      return middle + (static_cast<double>(at.ns() - static_cast<int64_t>(middle)) - offset) / (1 + drift);
    };
    const capture::ClockModel& clock = analysis.clock;
    double first = 1e300, last = 0;
    for (size_t h = 0; h < hosts; ++h) {
      for (const HostTime at : {capture.ranks[h].window.start, capture.ranks[h].window.end}) {
        EXPECT_NEAR(to_job(h, at), static_cast<double>(clock.ToJob(static_cast<uint32_t>(h), at).ns()), 2000)
            << "all other numbers use it";
      }
      first = std::min(first, to_job(h, capture.ranks[h].window.start));
      last = std::max(last, to_job(h, capture.ranks[h].window.end));
    }
    EXPECT_NEAR(first, static_cast<double>(*row.start_unix_ns), 2000)
        << "doubles of the epoch hold a quarter of a microsecond";
    EXPECT_NEAR(last - first, static_cast<double>(row.duration->ns()), 2000);
    int64_t widest = 0;
    size_t references = 0, found = 0;
    for (size_t a = 0; a < hosts; ++a) {
      EXPECT_EQ(row.clock.hosts[a].host, "host" + std::to_string(a));
      // The clock of one host is the job's clock, so it has no offset and no bound.
      references += row.clock.hosts[a].method == "none" && row.clock.hosts[a].offset == Nanos() &&
                            row.clock.hosts[a].bound == Nanos()
                        ? 1
                        : 0;
      found += row.clock.hosts[a].method != "none" && *row.clock.hosts[a].bound > Nanos() ? 1 : 0;
      if (asked) {
        const double truly = 1000 * (clocks[a].Local((middle - TimelineBuilder::kEpochNs) / 1000) -
                                     (middle - TimelineBuilder::kEpochNs) / 1000);
        EXPECT_NEAR(static_cast<double>(row.clock.hosts[a].offset->ns()), truly,
                    static_cast<double>(row.clock.hosts[a].bound->ns()))
            << "ahead of the job's clock";
        EXPECT_TRUE(row.clock.hosts[a].method == "network" || row.clock.hosts[a].method == "both");
      } else {
        EXPECT_NE(row.clock.hosts[a].method, "network");
      }
      for (size_t b = a + 1; b < hosts; ++b) {
        const int64_t bound = (row.clock.hosts[a].bound.value() + row.clock.hosts[b].bound.value()).ns();
        widest = std::max(widest, bound);
        // Compares two clocks in the middle and at both ends of the window. By the rows, their stamps of the
        // same moment must agree within the bound.
        for (const double at_us : {0.0, 600'000.0, 1'200'000.0, 3'000'000.0}) {
          const double said_a = to_job(a, TimelineBuilder::At(clocks[a].Local(at_us))),
                       said_b = to_job(b, TimelineBuilder::At(clocks[b].Local(at_us)));
          EXPECT_LE(std::fabs(said_a - said_b), static_cast<double>(bound) + 1000)
              << "hosts " << a << " and " << b;
        }
      }
    }
    EXPECT_EQ(references, asked ? 0u : 1u);
    EXPECT_EQ(found, asked ? hosts : hosts - 1);
    ASSERT_TRUE(row.clock.bound.has_value());
    EXPECT_EQ(row.clock.bound->ns(), widest) << "of any two hosts' difference";
    EXPECT_LT(widest, 2'000'000) << "a bound of everything says nothing";
  }
}

TEST(ReportCapture, TheWindowOfOneClockIsFromTheFirstToTheLastStamp) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    std::mt19937_64 random(seed);
    TimelineBuilder t;
    int64_t first = INT64_MAX, last = 0;
    for (int r = 0; r < 5; ++r) {
      const int64_t begin = static_cast<int64_t>(random() % 900),
                    length = 1 + static_cast<int64_t>(random() % 500);
      t.Rank(r).Kernel("k", static_cast<double>(begin), static_cast<double>(length));
      // A kernel may end after the requested window.
      t.Rank(r).data().window = {TimelineBuilder::At(static_cast<double>(begin) - 5),
                                 TimelineBuilder::At(static_cast<double>(begin + 20))};
      first = std::min(first, begin - 5);
      last = std::max(last, begin + std::max<int64_t>(20, length));
      t.Rank(r).data().losses.push_back({.stage = r % 2 == 0 ? "ring" : "wire",
                                         .kind = "kernel",
                                         .records = random() % 1000,
                                         .reason = "full",
                                         .from = TimelineBuilder::At(static_cast<double>(begin)),
                                         .to = TimelineBuilder::At(static_cast<double>(begin + 7))});
      t.Rank(r).data().pid = 100 + r;
      t.Rank(r).data().device = DeviceId(static_cast<uint32_t>(r % 3));
    }
    capture::Capture capture = t.Build();
    capture.live = seed % 2 == 0;
    const Report report = Analyze(capture).report;
    tests::CheckedJson(report);
    EXPECT_EQ(report.capture.start_unix_ns, TimelineBuilder::kEpochNs + 1000 * first);
    EXPECT_EQ(report.capture.duration, Nanos::Micros(last - first));
    EXPECT_EQ(report.capture.clock.bound, Nanos());
    ASSERT_EQ(report.capture.losses.size(), capture.ranks.size());
    for (size_t r = 0; r < capture.ranks.size(); ++r) {
      const LossRow& reported = report.capture.losses[r];
      const capture::Loss& written = capture.ranks[r].losses[0];
      EXPECT_EQ(reported.rank, capture.ranks[r].rank);
      EXPECT_EQ(reported.records, written.records);
      EXPECT_EQ(reported.from_ns, written.from.ns());
      EXPECT_EQ(reported.to_ns, written.to.ns());
      EXPECT_EQ(reported.stage, written.stage);
      EXPECT_EQ(report.ranks[r].pid, 100 + static_cast<int32_t>(r));
      EXPECT_EQ(report.ranks[r].device, r % 3);
    }
  }
}

}  // namespace
}  // namespace lockstep::report
