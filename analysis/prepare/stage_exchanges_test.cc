#include "analysis/prepare/stage_exchanges.h"

#include "analysis/prepare/stages.h"
#include "analysis/replay/prepared.h"
#include "capture/model/timeline_builder_fixture.h"
#include "gtest/gtest.h"

namespace lockstep::analysis {
namespace {

using capture::CollectiveOp;
using capture::TimelineBuilder;

constexpr int kExchangeSteps = 4;
constexpr double kPeriodUs = 10'000;

void Exchange(capture::RankTimeline& rank, uint32_t group, double at, double us) {
  rank.Communication({.op = CollectiveOp::kSendReceive, .group = group}, at, us);
}

// Two ranks exchange twice a step. `first` and `second`: kernels of rank 0 and rank 1 before the first one.
// Each rank then runs what is left of ten kernels.
capture::Capture TwoRanks(int first, int second) {
  TimelineBuilder t;
  const uint32_t group = t.Group("pair", {0, 1});
  for (int step = 0; step < kExchangeSteps; ++step) {
    const double at = 10 + step * kPeriodUs;
    for (int r = 0; r < 2; ++r) {
      const int before = r == 0 ? first : second;
      for (int k = 0; k < before; ++k) t.Rank(r).Kernel("gemm", at + k * 100, 90);
      Exchange(t.Rank(r), group, at + before * 100, 3'000 - before * 100);
      for (int k = before; k < 10; ++k) t.Rank(r).Kernel("gemm", at + 3'000 + k * 100, 90);
      Exchange(t.Rank(r), group, at + 5'000, 100);
      t.Rank(r).Step(step, at - 5, 8'000);
    }
  }
  return t.Build();
}

struct Found {
  std::vector<StageExchange> list;
  int32_t steps = 0;
};

Found Find(const capture::Capture& capture) {
  const Prepared prepared(capture, 1);
  return {.list = FindStageExchanges(capture, prepared.matches, prepared.steps),
          .steps = static_cast<int32_t>(prepared.steps.count())};
}

TEST(StageExchanges, AStageIsAheadBeforeTheFirstMessageOfAStep) {
  const Found forward = Find(TwoRanks(6, 0));
  ASSERT_EQ(forward.list.size(), 1u);
  EXPECT_EQ(forward.list[0].first, 0u);
  EXPECT_EQ(forward.list[0].second, 1u);
  EXPECT_GE(forward.steps, kExchangeSteps - 1);
  EXPECT_EQ(forward.list[0].first_ahead, forward.steps);
  const Found backward = Find(TwoRanks(0, 6));
  ASSERT_EQ(backward.list.size(), 1u);
  EXPECT_EQ(backward.list[0].first_ahead, -backward.steps);
}

TEST(StageExchanges, RanksOfOneProgramAreNotStages) {
  EXPECT_TRUE(Find(TwoRanks(6, 6)).list.empty());
  EXPECT_TRUE(Find(TwoRanks(6, 5)).list.empty()) << "streams run side by side";
}

TEST(StageExchanges, GiveTheLayoutItsStages) {
  for (const bool first_sends : {true, false}) {
    const capture::Capture capture = first_sends ? TwoRanks(6, 0) : TwoRanks(0, 6);
    const Prepared prepared(capture, 1);
    const Layout layout = InferLayout(capture, prepared.matches, prepared.times, prepared.steps);
    ASSERT_EQ(layout.stages, 2u);
    EXPECT_TRUE(layout.first_known);
    EXPECT_EQ(layout.stage_of[0], first_sends ? 0 : 1);
    EXPECT_EQ(layout.stage_of[1], first_sends ? 1 : 0);
  }
}

}  // namespace
}  // namespace lockstep::analysis
