#include "analysis/explain/shared_losses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "analysis/explain/judged.h"
#include "analysis/replay/prepared.h"
#include "capture/model/timeline_builder_fixture.h"
#include "tests/support/small_job.h"

namespace lockstep::analysis {
namespace {

using testing::Contains;
using testing::Not;
using tests::CallAt;
using tests::SmallJob;

struct Judgement {
  Diagnosis diagnosis;
  std::vector<SharedLoss> losses;

  // The loss of the kind per step; 0 if it is not listed.
  double Of(SharedLossKind kind) const {
    for (const SharedLoss& loss : losses) {
      if (loss.kind == kind) return loss.lost_ns;
    }
    return 0;
  }
  std::vector<std::string> NotJudgedParts() const {
    std::vector<std::string> parts;
    for (const NotJudged& n : diagnosis.not_judged) parts.push_back(n.what);
    return parts;
  }
};

Judgement JudgementOf(const capture::Capture& capture) {
  const Prepared prepared(capture, 1);
  Judgement out{.diagnosis = Diagnose(prepared.input())};
  out.losses = FindSharedLosses(prepared.input(), out.diagnosis);
  return out;
}

Judgement JudgementOf(const SmallJob& job) { return JudgementOf(tests::CaptureOf(job)); }

// All hosts are silent for 2 ms before each step: nobody is a straggler, and the whole job loses that time.
TEST(SharedLosses, WaitingOfAllHostsIsALossOfTheJob) {
  SmallJob job;
  job.gap_us = [](const CallAt& c) { return c.head ? 2000.0 : 0.0; };
  const Judgement slow = JudgementOf(job);
  EXPECT_TRUE(slow.diagnosis.findings.empty());
  const double lost = slow.Of(SharedLossKind::kIdleOther);
  EXPECT_NEAR(lost, slow.diagnosis.step_ns - JudgementOf(SmallJob()).diagnosis.step_ns, 0.1 * lost);
  ASSERT_FALSE(slow.losses.empty());
  EXPECT_GT(slow.losses[0].silent_ns, 0.9 * 2e6);
}

// The same for one rank only is that rank's delay.
TEST(SharedLosses, WaitingOfOneHostIsNot) {
  SmallJob job;
  job.gap_us = [](const CallAt& c) { return c.head && c.rank == 1 ? 2000.0 : 0.0; };
  const Judgement slow = JudgementOf(job);
  ASSERT_FALSE(slow.diagnosis.findings.empty());
  EXPECT_LT(slow.Of(SharedLossKind::kIdleOther), 0.2e6);
  EXPECT_LT(slow.Of(SharedLossKind::kExposedWait), 0.2e6) << "the others' waiting belongs to the straggler";
}

TEST(NotJudged, LinksOfGroupsThatCanBeComparedAreJudged) {
  SmallJob job;  // four groups of two, two groups of four
  EXPECT_THAT(JudgementOf(job).NotJudgedParts(), testing::IsEmpty());
}

TEST(NotJudged, TheLinksOfOneCommunicatorAreNot) {
  SmallJob job;
  job.data_parallel = 8, job.tensor_parallel = 1;
  EXPECT_THAT(JudgementOf(job).NotJudgedParts(), testing::ElementsAre("links inside hosts"));
  job.ranks_per_host = 4;
  EXPECT_THAT(JudgementOf(job).NotJudgedParts(), testing::ElementsAre("links inside and between hosts"));
  job.ranks_per_host = 1;
  EXPECT_THAT(JudgementOf(job).NotJudgedParts(), testing::ElementsAre("links between hosts"));
}

// A link that is always slow in such a job shows in nothing, so the report must not call the job healthy.
TEST(NotJudged, AConstantlySlowLinkOfDataParallelRanksIsNamedOrNotJudged) {
  for (int ranks_per_host : {1, 4, 16}) {
    SmallJob job;
    job.data_parallel = 16, job.tensor_parallel = 1, job.ranks_per_host = ranks_per_host;
    job.transfer = [](const tests::TransferAt&) { return 1.5; };
    const Judgement slow = JudgementOf(job);
    EXPECT_TRUE(!slow.diagnosis.findings.empty() || !slow.diagnosis.not_judged.empty()) << ranks_per_host;
  }
}

// Without sizes, a rank with more tokens looks like one with a slow GPU, unless the kernels are known to be
// experts'.
TEST(NotJudged, ExpertsWithoutSizesAreJudgedOnlyByGroupedProducts) {
  SmallJob job;
  job.experts = true, job.data_parallel = 8, job.tensor_parallel = 1;
  job.tokens = [](int) { return 1.0; };
  capture::Capture capture = tests::CaptureOf(job);
  EXPECT_THAT(JudgementOf(capture).NotJudgedParts(), Not(Contains("experts")));
  for (capture::RankData& rank : capture.ranks) {
    for (capture::Collective& c : rank.collectives) c.bytes = c.received_bytes = -1;
  }
  EXPECT_THAT(JudgementOf(capture).NotJudgedParts(), Not(Contains("experts")));
  const NameId product = capture.strings.Intern("gemm_kernel");
  for (capture::RankData& rank : capture.ranks) {
    for (capture::DeviceActivity& a : rank.activities) {
      if (capture.Text(a.name).find("grouped") != std::string_view::npos) a.name = product;
    }
  }
  EXPECT_THAT(JudgementOf(capture).NotJudgedParts(), Contains("experts"));
}

TEST(NotJudged, ASingleRankIsComparedWithNothing) {
  SmallJob job;
  job.data_parallel = 1, job.tensor_parallel = 1;
  EXPECT_THAT(JudgementOf(job).NotJudgedParts(), Contains("GPU speed and memory"));
}

// As in a capture of the past. What the devices do between collectives is not idleness.
TEST(SharedLosses, CommunicationAloneShowsTheLateRankAndNoIdleness) {
  capture::TimelineBuilder t;
  const uint32_t g = t.Group("g", {0, 1, 2, 3});
  constexpr double kLate = 200;
  for (int step = 0; step < 20; ++step) {
    for (int32_t rank = 0; rank < 4; ++rank) {
      const double noise = (step * 7 + rank * 3) % 5;
      const double late = rank == 2 ? kLate : 0;
      t.Rank(rank).AllReduce(g, 1000.0 * step + 500 + noise + late, 300 - noise - late);
    }
  }
  const Judgement judged = JudgementOf(t.Build());
  EXPECT_TRUE(judged.losses.empty());
  ASSERT_EQ(judged.diagnosis.findings.size(), 1u);
  const Finding& found = judged.diagnosis.findings[0];
  EXPECT_THAT(found.rank_indices, testing::ElementsAre(2u));
  EXPECT_EQ(found.cause, Cause::kUnknown);
  EXPECT_THAT(judged.NotJudgedParts(), Contains("what GPUs and hosts do between collectives"));
}

}  // namespace
}  // namespace lockstep::analysis
