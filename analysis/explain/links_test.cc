// Slow links whose ranks have other transfers that are normal.
#include "analysis/explain/links.h"

#include <algorithm>
#include <string>
#include <vector>

#include "analysis/explain/diagnosis.h"
#include "analysis/replay/prepared.h"
#include "capture/model/timeline_builder_fixture.h"
#include "gtest/gtest.h"
#include "tests/support/small_job.h"

namespace lockstep::analysis {
namespace {

using capture::CollectiveOp;
using tests::SmallJob;
using tests::TransferAt;

Diagnosis DiagnosisOf(const capture::Capture& capture) { return Diagnose(Prepared(capture, 1).input()); }

TEST(Links, TheOnlyCommonMemberOfSlowGroupsIsTheirCulprit) {
  SmallJob job;
  job.data_parallel = 2;
  job.tensor_parallel = 2;
  job.pipeline = 2;
  job.ranks_per_host = 4;
  // The link to the other rank of the tensor group is another one, which is fine.
  job.transfer = [](const TransferAt& t) {
    const bool member = std::find(t.members.begin(), t.members.end(), 5) != t.members.end();
    return member && t.members.size() == 2 && t.members != std::vector<int>{4, 5} ? 3.0 : 1.0;
  };
  const Diagnosis d = DiagnosisOf(tests::CaptureOf(job));
  ASSERT_FALSE(d.findings.empty());
  EXPECT_EQ(d.findings[0].rank_indices, std::vector<uint32_t>{5});
  EXPECT_EQ(CauseName(d.findings[0].cause), "slow_link");
}

// An inferred communicator may have other members.
TEST(Links, LinksOfUncertainCommunicatorsAreNotJudged) {
  SmallJob job;
  job.transfer = [](const TransferAt& t) { return t.members.size() == 2 && t.members[0] == 2 ? 3.0 : 1.0; };
  capture::Capture capture = tests::CaptureOf(job);
  EXPECT_FALSE(DiagnosisOf(capture).findings.empty());
  for (capture::Group& group : capture.groups) {
    group.origin = capture::GroupOrigin::kInferred;
    group.uncertain = true;
  }
  EXPECT_TRUE(DiagnosisOf(capture).findings.empty());
}

// Two groups of eight experts, each on two hosts of four ranks. Every exchange has its own sizes.
capture::Capture ExchangesWithASlowPathOutOfTheHost(int32_t slow_rank, double times) {
  capture::TimelineBuilder t;
  std::vector<int32_t> all;
  for (int32_t r = 0; r < 16; ++r) all.push_back(r);
  const uint32_t world = t.Group("world", all);
  const uint32_t experts[] = {t.Group("ep0", {all.begin(), all.begin() + 8}),
                              t.Group("ep1", {all.begin() + 8, all.end()})};
  std::vector<double> now(16, 100);
  for (int step = 0; step < 8; ++step) {
    const double begin = *std::max_element(now.begin(), now.end());
    for (int layer = 0; layer < 6; ++layer) {
      std::vector<double> came(16);
      for (int r = 0; r < 16; ++r) {
        auto& rank = t.Rank(r, "host" + std::to_string(r / 4));
        const double kernel = 2000 + 5 * ((r * 7 + step * 3 + layer) % 4);
        if (layer == 0) rank.Step(step, begin + 1, 1e6);
        rank.Kernel("gemm", now[r] + 4, kernel, 7, begin + 3 + 10 * layer);
        rank.Kernel("add", now[r] + 5 + kernel, 50, 7, begin + 5 + 10 * layer);
        came[r] = now[r] + 56 + kernel;
      }
      for (int r = 0; r < 16; ++r) {
        const int group = r / 8;
        const double last = *std::max_element(came.begin() + 8 * group, came.begin() + 8 * group + 8);
        const bool on_path = slow_rank / 8 == group && (r == slow_rank || r / 4 != slow_rank / 4);
        const double transfer = 600 * (on_path ? times : 1) + (r + step) % 3;
        t.Rank(r).Communication({.op = CollectiveOp::kAllToAllV,
                                 .group = experts[group],
                                 .bytes = 1'000'000 + 1000 * ((r * 31 + step * 17 + layer * 5) % 40)},
                                came[r], last + transfer - came[r], 20, begin + 8 + 10 * layer);
        now[r] = last + transfer;
      }
    }
    const double last = *std::max_element(now.begin(), now.end()) + 1;
    for (int r = 0; r < 16; ++r) {
      t.Rank(r).Communication({.op = CollectiveOp::kAllReduce, .group = world, .bytes = 64}, now[r] + 1,
                              last + 30 - now[r] - 1, 21, begin + 80);
      t.Rank(r).StreamSynchronize(21, begin + 100, last + 30.5 - begin - 100);
      t.Rank(r).data().ranges.back().end = capture::TimelineBuilder::At(last + 31);
    }
    for (double& n : now) n = last + 32;
  }
  return t.Build();
}

TEST(Links, NamesTheRankWhosePathOutOfItsHostIsSlowInUnevenExchanges) {
  const Diagnosis d = DiagnosisOf(ExchangesWithASlowPathOutOfTheHost(3, 3));
  ASSERT_FALSE(d.findings.empty());
  EXPECT_EQ(d.findings[0].rank_indices, std::vector<uint32_t>{3});
  EXPECT_EQ(CauseName(d.findings[0].cause), "slow_link");
  const double healthy = DiagnosisOf(ExchangesWithASlowPathOutOfTheHost(3, 1)).step_ns;
  EXPECT_NEAR(d.findings[0].gain_ns, d.step_ns - healthy, 0.03 * (d.step_ns - healthy));
}

TEST(Links, UnevenExchangesOfAHealthyJobNameNoRank) {
  for (const Finding& f : DiagnosisOf(ExchangesWithASlowPathOutOfTheHost(3, 1)).findings)
    EXPECT_EQ(f.verdict, Verdict::kUndecided);
}

}  // namespace
}  // namespace lockstep::analysis
