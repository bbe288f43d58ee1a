#include "analysis/replay/lost_members.h"

#include <vector>

#include "analysis/gains/gains.h"
#include "analysis/replay/prepared.h"
#include "capture/model/timeline_builder_fixture.h"
#include "gtest/gtest.h"

namespace lockstep::analysis {
namespace {

using capture::CollectiveOp;
using capture::MatchSource;

constexpr int kLostSteps = 6;
constexpr double kLostStepUs = 1'555;

// Rank 0 computes 400 us longer than the others before they reduce. Later work begins when the reduction has
// ended. `lost`: the step in which rank 2 lacks the record of the reduction.
capture::Capture Job(int lost) {
  capture::TimelineBuilder t;
  const uint32_t all = t.Group("all", {0, 1, 2});
  for (int r = 0; r < 3; ++r) {
    capture::RankTimeline& rank = t.Rank(r);
    for (int s = 0; s < kLostSteps; ++s) {
      const double at = kLostStepUs * s, work = r == 0 ? 1'000 : 600;
      rank.Step(s, at, kLostStepUs).Kernel("work", at, work);
      if (r != 2 || s != lost) {
        rank.Communication({.op = CollectiveOp::kAllReduce,
                            .group = all,
                            .source = MatchSource::kNcclSequence,
                            .sequence = s},
                           at + work + 1, 1'051 - work);
      }
      rank.Kernel("next", at + 1'054, 500);
    }
    if (r == 2 && lost >= 0) rank.data().losses.push_back({.records = 1});
  }
  return t.Build();
}

double GainOfRank0(int lost) {
  const capture::Capture capture = Job(lost);
  const Prepared prepared(capture, 1);
  const GraphInput input = prepared.input();
  Gains gains(input);
  double sum = 0;
  for (double g : gains.Of({.rank_indices = {0}, .owners = {}})) sum += g;
  return sum / 1e3;
}

TEST(LostMembers, ARankWithALostRecordGainsLikeTheOthers) {
  // The first step begins at its observed time, so it gains nothing.
  const double whole = GainOfRank0(-1);
  EXPECT_NEAR(whole, 400 * (kLostSteps - 1), 1);
  EXPECT_NEAR(GainOfRank0(2), whole, 5);
}

TEST(LostMembers, OnlyIdleStreamsFollowALostCollective) {
  const capture::Capture capture = Job(2);
  const Prepared prepared(capture, 1);
  const Graph graph = BuildGraph(prepared.input());
  size_t across = 0;
  for (uint32_t u = 0; u < graph.units.size(); ++u) {
    for (NodeRef p : graph.StartPreds(u))
      across += graph.units[UnitOf(p)].rank_index != graph.units[u].rank_index ? 1 : 0;
  }
  EXPECT_EQ(across, 1u);
}

}  // namespace
}  // namespace lockstep::analysis
