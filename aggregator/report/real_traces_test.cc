// What real traces say, where they lie beside the repository: the numbers others published for them.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <random>

#include "aggregator/report/report.h"
#include "aggregator/trace/readers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/report_check.h"

namespace lockstep::report {
namespace {

using testing::HasSubstr;

std::optional<store::Capture> Real(const std::string& set) {
  const std::filesystem::path folder = std::filesystem::path(LOCKSTEP_SOURCE_DIR) / ".." / "shared" / "traces" / set;
  if (!std::filesystem::exists(folder)) {
    std::cout << "not tested: " << set << " is not there (../shared/traces)\n";
    return std::nullopt;
  }
  auto capture = trace::ReadInput(std::vector<std::string>{folder.string()}, {});
  EXPECT_TRUE(capture.ok()) << capture.status();
  if (!capture.ok()) return std::nullopt;
  return std::move(*capture);
}

struct TrueClock {
  double offset_ns;
  double drift;
};

// Every rank's clock is set off by up to 10 ms and drifts by up to 50 ppm.
std::vector<TrueClock> SetClocksOff(store::Capture& capture, std::mt19937_64& random) {
  std::uniform_real_distribution<double> unit(-1, 1);
  std::vector<TrueClock> clocks;
  for (store::RankData& rank : capture.ranks) {
    const TrueClock clock{unit(random) * 1e7, unit(random) * 50e-6};
    const HostTime base = rank.window.start;
    const auto off = [&](HostTime t) {
      return HostTime(t.ns() + static_cast<int64_t>(clock.offset_ns + clock.drift * static_cast<double>((t - base).ns())));
    };
    const auto shift = [&](auto& rows) {
      for (auto& row : rows) row.start = off(row.start), row.end = off(row.end);
    };
    shift(rank.activities);
    shift(rank.api_calls);
    shift(rank.syncs);
    shift(rank.ranges);
    shift(rank.unions.operators);
    shift(rank.unions.data_loader);
    rank.window = {off(rank.window.start), off(rank.window.end)};
    clocks.push_back(clock);
  }
  return clocks;
}

double Millis(Nanos n) { return n.millis(); }

// Latest-start waits on the common clock these traces have, in microseconds.
constexpr double kDlrmWaitUs[8] = {5580, 11125, 3280, 9571, 6370, 6041, 3342, 1534};

void ExpectDlrm(const Report& report) {
  tests::CheckedJson(report);
  tests::ExpectConsistent(report);
  ASSERT_EQ(report.ranks.size(), 8u);
  EXPECT_NEAR(Millis(report.ranks[7].caused_wait), 35.55, 0.05);
  EXPECT_NEAR(Millis(report.ranks[5].caused_wait), 6.28, 0.05);
  EXPECT_NEAR(Millis(report.ranks[4].caused_wait), 5.01, 0.05);
  ASSERT_TRUE(report.ranks[7].late_from_before.has_value());
  EXPECT_NEAR(Millis(*report.ranks[7].late_from_before), 7.513, 0.02);
  for (size_t r = 0; r < 8; ++r) {
    EXPECT_NEAR(static_cast<double>(report.ranks[r].wait->ns()) / 1e3, kDlrmWaitUs[r], 20) << "rank " << r;
    EXPECT_NEAR(static_cast<double>(report.ranks[r].wait_by_clock->ns()) / 1e3, kDlrmWaitUs[r], 20) << "rank " << r;
  }
  ASSERT_FALSE(report.stragglers.empty());
  EXPECT_EQ(report.stragglers[0].ranks, std::vector<RankId>{RankId(7)});
  EXPECT_EQ(report.stragglers[0].cause, "unknown");
  EXPECT_EQ(report.stragglers[0].verdict, "undecided") << "one step proves nothing";
  const std::string text = RenderText(report, {.width = 200});
  EXPECT_THAT(text.substr(0, text.find('\n')), HasSubstr("the others wait for rank 7"));
  EXPECT_THAT(text, HasSubstr("rank 7 came 7.51 ms late from before the window, cause unknown"));
}

TEST(RealTraces, EightRanksOfDlrmWaitForRankSeven) {
  const auto capture = Real("param_dlrm_8rank");
  if (!capture) return;
  const Analysis analysis = Analyze(*capture);
  ExpectDlrm(analysis.report);
  EXPECT_EQ(analysis.report.capture.matching.matched_fraction, 1.0);
  // The clocks agree, so whatever is claimed about them must allow for 0.
  for (const auto& clock : analysis.clock.hosts()) EXPECT_LE(std::llabs(clock.offset.ns()), clock.bound.ns());
}

TEST(RealTraces, DlrmSaysTheSameWithEveryClockOffByTenMilliseconds) {
  std::mt19937_64 random(4);
  for (int trial = 0; trial < 6; ++trial) {
    auto capture = Real("param_dlrm_8rank");
    if (!capture) return;
    SetClocksOff(*capture, random);
    ExpectDlrm(Analyze(*capture).report);
  }
}

TEST(RealTraces, TwoRanksOfDdpGetNoFalseOffset) {
  for (const std::string set : {"bert_ddp_2rank", "resnet50_ddp_2rank"}) {
    const auto capture = Real(set);
    if (!capture) return;
    const Analysis analysis = Analyze(*capture);
    tests::CheckedJson(analysis.report);
    tests::ExpectConsistent(analysis.report);
    ASSERT_EQ(analysis.clock.hosts().size(), 2u);
    for (const auto& clock : analysis.clock.hosts()) {
      EXPECT_LT(std::llabs(clock.offset.ns()), 50'000) << set;
      EXPECT_LE(std::llabs(clock.offset.ns()), clock.bound.ns()) << set;
    }
  }
}

TEST(RealTraces, TheBoundCoversTheTruthWhenDdpClocksAreSetOff) {
  std::mt19937_64 random(8);
  for (const std::string set : {"bert_ddp_2rank", "resnet50_ddp_2rank"}) {
    for (int trial = 0; trial < 3; ++trial) {
      auto capture = Real(set);
      if (!capture) return;
      const HostTime base[2] = {capture->ranks[0].window.start, capture->ranks[1].window.start};
      const auto truth = SetClocksOff(*capture, random);
      const Analysis analysis = Analyze(*capture);
      for (const double share : {0.0, 0.5, 1.0}) {
        // The same moment on both clocks, which agreed before.
        const auto length = static_cast<double>((capture->ranks[0].window.end - capture->ranks[0].window.start).ns());
        const int64_t at = base[0].ns() + static_cast<int64_t>(share * length);
        JobTime on_job[2];
        for (uint32_t r = 0; r < 2; ++r) {
          const double lead = truth[r].offset_ns + truth[r].drift * static_cast<double>(at - base[r].ns());
          on_job[r] = analysis.clock.ToJob(capture->ranks[r].host, HostTime(at + static_cast<int64_t>(lead)));
        }
        const Nanos error = on_job[0] - on_job[1];
        EXPECT_LE(std::llabs(error.ns()), analysis.clock.bound().ns()) << set;
        // The small all-reduces of one set tell much; the other has none, and three clear waits in 24 s tell no drift.
        EXPECT_LT(std::llabs(error.ns()), set == "bert_ddp_2rank" ? 300'000 : 1'500'000) << set;
      }
    }
  }
}

TEST(RealTraces, AWindowThatLostCollectivesIsAlignedAndTheRestReported) {
  auto capture = Real("bert_ddp_2rank");
  if (!capture) return;
  const align::Matches whole = align::Match(*capture);
  // Rank 1's window begins two collectives later, as in the sets with 27 against 29.
  store::RankData& rank = capture->ranks[1];
  const HostTime from = rank.activities[rank.collectives[2].activity].start;
  std::erase_if(rank.activities, [&](const auto& a) { return a.start < from; });
  capture->groups.clear();
  for (store::RankData& each : capture->ranks) {
    each.collectives.clear();
    for (auto& a : each.activities) a.collective = store::kNone;
  }
  store::Finish(*capture);
  const align::Matches cut = align::Match(*capture);
  EXPECT_EQ(cut.by_order, whole.by_order - 2);
  EXPECT_EQ(cut.unmatched, 2u);
  for (const auto& instance : cut.instances) {
    if (!instance.complete) continue;
    EXPECT_EQ(instance.members[0].collective, instance.members[1].collective + 2);
  }
}

TEST(RealTraces, RenumberedRanksAndShuffledRowsGiveTheSameAnswers) {
  auto capture = Real("param_dlrm_8rank");
  if (!capture) return;
  const Report before = Analyze(*capture).report;
  std::mt19937_64 random(6);
  for (store::RankData& rank : capture->ranks) {
    rank.rank = RankId((rank.rank.value() + 3) % 8);
    for (auto& a : rank.activities) a.collective = store::kNone;
    rank.collectives.clear();
    std::shuffle(rank.activities.begin(), rank.activities.end(), random);
    std::shuffle(rank.api_calls.begin(), rank.api_calls.end(), random);
    std::shuffle(rank.ranges.begin(), rank.ranges.end(), random);
  }
  store::Finish(*capture);
  const Report after = Analyze(*capture).report;
  EXPECT_EQ(after.stragglers[0].ranks, std::vector<RankId>{RankId(2)});
  for (size_t r = 0; r < 8; ++r) {
    const RankRow& a = before.ranks[r];
    const RankRow& b = after.ranks[(r + 3) % 8];
    EXPECT_EQ(a.compute, b.compute);
    EXPECT_EQ(a.exposed_wait, b.exposed_wait);
    EXPECT_EQ(a.caused_wait, b.caused_wait);
  }
}

TEST(RealTraces, SingleRanksOfLargerJobsGiveAnHonestReport) {
  for (const std::string set : {"a100_collective_args", "v100_2020_allreduce", "ns_timestamps", "v100_step_pair_rank3"}) {
    const auto capture = Real(set);
    if (!capture) return;
    const Report report = Analyze(*capture).report;
    tests::CheckedJson(report);
    tests::ExpectConsistent(report);
    EXPECT_TRUE(report.stragglers.empty()) << set << ": one rank has nobody to hold back";
  }
}

}  // namespace
}  // namespace lockstep::report
