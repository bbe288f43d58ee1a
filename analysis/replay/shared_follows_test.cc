#include "analysis/replay/shared_follows.h"

#include <algorithm>
#include <string>
#include <vector>

#include "analysis/replay/graph.h"
#include "analysis/replay/prepared.h"
#include "capture/model/timeline_builder_fixture.h"
#include "gtest/gtest.h"

namespace lockstep::analysis {
namespace {

using capture::TimelineBuilder;

constexpr int kSteps = 6;
constexpr double kStepUs = 10'000;

std::string NameOf(const capture::Capture& capture, const Graph& graph, uint32_t unit) {
  const Unit& u = graph.units[unit];
  return std::string(capture.strings.Text(capture.ranks[u.rank_index].activities[u.source].name));
}

// Sorted names of the units that a rank's unit of that name and step follows.
std::vector<std::string> Before(const capture::Capture& capture, const Graph& graph, uint32_t rank,
                                const std::string& name, int32_t step) {
  std::vector<std::string> names;
  for (uint32_t u = graph.rank_begin[rank]; u < graph.rank_begin[rank + 1]; ++u) {
    if (graph.units[u].step != step || NameOf(capture, graph, u) != name) continue;
    for (NodeRef p : graph.StartPreds(u)) names.push_back(NameOf(capture, graph, UnitOf(p)));
  }
  std::sort(names.begin(), names.end());
  return names;
}

using Names = std::vector<std::string>;

// Kernels directly after each other, which show the device's usual gap between operations.
void AddTail(capture::RankTimeline& rank, double at) {
  for (int k = 0; k < 10; ++k) rank.Kernel("tail", at + 51 * k, 50, 7);
}

// A pass begins when its input and its parameters are there. Rank 0 waits for the input, rank 1 for the
// parameters.
TEST(SharedFollows, ADependencyOfOneRankAppliesAtTheSamePlaceOnAll) {
  TimelineBuilder t;
  for (int r = 0; r < 2; ++r) {
    auto& rank = t.Rank(r);
    for (int s = 0; s < kSteps; ++s) {
      const double at = kStepUs * s;
      rank.Step(s, at, kStepUs);
      rank.Kernel("input", at + 100, r == 0 ? 900 : 300, 8)
          .Kernel("parameters", at + 100, r == 0 ? 300 : 900, 9);
      // It ends before the pass begins in some steps and after that in others, so the pass does not wait for
      // it.
      rank.Kernel("beside", at + 200, s % 2 == 0 ? 100 : 2000, 10);
      rank.Kernel("pass", at + 1001, 5000, 7);
      AddTail(rank, at + 6002);
    }
  }
  const capture::Capture capture = t.Build();
  const Prepared prepared(capture, 1);
  const Graph graph = BuildGraph(prepared.input());
  for (uint32_t r = 0; r < 2; ++r) {
    for (int32_t s = 1; s < kSteps - 1; ++s) {
      EXPECT_EQ(Before(capture, graph, r, "pass", s), (Names{"input", "parameters", "tail"}))
          << "rank " << r << ", step " << s;
    }
  }
}

// In step 3, the host pauses before the first pass, and both messages come meanwhile. The pass still waits
// for the first message.
TEST(SharedFollows, APauseThatReordersOperationsKeepsTheEdges) {
  TimelineBuilder t;
  for (int s = 0; s < kSteps; ++s) {
    const double at = kStepUs * s, pause = s == 3 ? 3000 : 0;
    auto& rank = t.Rank(0);
    rank.Step(s, at, kStepUs);
    rank.Kernel("message", at + 100, 400, 8).Kernel("message", at + 2000, 400, 8);
    rank.Kernel("first", at + 501 + pause, 1000, 7).Kernel("second", at + 2401 + pause, 1000, 7);
    AddTail(rank, at + 3402 + pause);
  }
  const capture::Capture capture = t.Build();
  const Prepared prepared(capture, 1);
  const Graph graph = BuildGraph(prepared.input());
  int firsts = 0;
  for (uint32_t u = 0; u < graph.units.size(); ++u) {
    if (NameOf(capture, graph, u) != "first") continue;
    ++firsts;
    // This message came 401 us before the time at which the pass would have begun without a pause.
    const double paused = firsts == 4 ? 3e6 : 0;
    const auto preds = graph.StartPreds(u);
    EXPECT_TRUE(std::any_of(preds.begin(), preds.end(),
                            [&](NodeRef p) {
                              return NameOf(capture, graph, UnitOf(p)) == "message" &&
                                     graph.start[u] - paused - graph.start[UnitOf(p)] == 401e3;
                            }))
        << "step " << firsts - 1;
  }
  EXPECT_EQ(firsts, kSteps);
}

// A host without recorded calls waits for its copies to the host before it continues.
TEST(SilentHosts, LateWorkFollowsTheLastCopyToTheHost) {
  TimelineBuilder t;
  for (int s = 0; s < kSteps; ++s) {
    const double at = kStepUs * s;
    auto& rank = t.Rank(0);
    rank.Step(s, at, kStepUs);
    rank.Kernel("pass", at + 400, 5000, 7)
        .Copy(4, at + 5400, 2, 9, -1, 2)
        .Kernel("gather", at + 5401, 4800, 15);
    rank.Kernel("receive", at + 5900, 100, 28);
    AddTail(rank, at + 6002);
  }
  const capture::Capture capture = t.Build();
  const Prepared prepared(capture, 1);
  const Graph graph = BuildGraph(prepared.input());
  for (int32_t s = 1; s < kSteps - 1; ++s) {
    Names names = Before(capture, graph, 0, "receive", s);
    EXPECT_TRUE(std::any_of(names.begin(), names.end(), [](const std::string& n) { return n == "Memcpy"; }))
        << "step " << s;
  }
}

// Each layer's gradients are reduced on a second stream while the next layer computes. On rank 0, which is
// late, each reduction begins as its layer ends. On rank 1, all layers have ended when the first reduction
// does. The launches show that each reduction still waits for its own layer only.
TEST(SharedFollows, TheOrderOfLaunchesShowsTheLayerThatAReductionWaitsFor) {
  TimelineBuilder t;
  const uint32_t g = t.Group("g", {0, 1});
  constexpr int kLayers = 4;
  for (int s = 0; s < kSteps; ++s) {
    const double at = kStepUs * s;
    for (int r = 0; r < 2; ++r) {
      auto& rank = t.Rank(r);
      const double begin = at + (r == 0 ? 5000 : 100), launch = at + (r == 0 ? 4000 : 10);
      rank.Step(s, at, kStepUs);
      for (int layer = 0; layer < kLayers; ++layer) {
        const double end = begin + 500 * (layer + 1);
        rank.Kernel("layer" + std::to_string(layer), end - 499, 499, 7, launch + 20 * layer);
        const double came = at + 5000 + 500 * (layer + 1) + 1;
        const double start = r == 0 ? came : layer == 0 ? end + 1 : came - 101;
        rank.Communication({.op = capture::CollectiveOp::kAllReduce, .group = g, .bytes = 64}, start,
                           came + 400 - start, 15, launch + 20 * layer + 10);
      }
      for (int k = 0; k < 10; ++k) rank.Kernel("tail", at + 8000 + 51 * k, 50, 7, launch + 200 + k);
    }
  }
  const capture::Capture capture = t.Build();
  const Prepared prepared(capture, 1);
  const Graph graph = BuildGraph(prepared.input());
  Names followed, expected;
  for (uint32_t u = graph.rank_begin[1]; u < graph.rank_begin[2]; ++u) {
    if (graph.units[u].kind != UnitKind::kTransfer || graph.units[u].step < 1) continue;
    for (NodeRef p : graph.StartPreds(u)) {
      if (graph.units[UnitOf(p)].kind == UnitKind::kKernel)
        followed.push_back(NameOf(capture, graph, UnitOf(p)));
    }
    expected.push_back("layer" + std::to_string(expected.size() % kLayers));
  }
  EXPECT_EQ(followed, expected);
}

}  // namespace
}  // namespace lockstep::analysis
