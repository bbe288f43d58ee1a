// Delay cost compared with the published algorithm, backward in time, on jobs of up to 16 ranks.
#include "analysis/gains/delay_cost.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "analysis/replay/prepared.h"
#include "gtest/gtest.h"
#include "scenario/generator.h"
#include "sim/engine/dry_run.h"
#include "tests/support/sim_capture.h"

namespace lockstep::analysis {
namespace {

using sim::FaultKind;

constexpr uint32_t kDelaySteps = 8;

struct Solved {
  capture::Capture capture;
  std::unique_ptr<Prepared> prepared;
  std::unique_ptr<GraphInput> input;
  std::unique_ptr<Gains> gains;
  DelayCost cost;
};

std::unique_ptr<Solved> Solve(const scenario::TransformerShape& shape, FaultKind kind, uint32_t rank,
                              double size) {
  const scenario::Scenario scenario = *scenario::MakeTransformer(shape);
  sim::ModelSettings settings;
  settings.seed = 17;
  const auto healthy = sim::DryRun(scenario, settings, kDelaySteps);
  EXPECT_TRUE(sim::SizeFault(scenario, kind, rank, size, sim::MeanStep(scenario, healthy), &settings.fault));
  tests::SimCaptureOptions options;
  options.from = VirtualTime(200'000'000);
  options.to = options.from + Nanos::Millis(800);
  auto out = std::make_unique<Solved>();
  out->capture = tests::CaptureOf(scenario, sim::DryRun(scenario, settings, kDelaySteps), options);
  out->prepared = std::make_unique<Prepared>(out->capture);
  out->input = std::make_unique<GraphInput>(out->prepared->input());
  out->gains = std::make_unique<Gains>(*out->input);
  out->gains->Measure();
  out->cost = CostDelays(*out->input, *out->gains);
  return out;
}

scenario::TransformerShape Shape(uint32_t data, uint32_t tensor, uint32_t pipeline) {
  scenario::TransformerShape shape;
  shape.data_parallel = data, shape.tensor_parallel = tensor, shape.pipeline_parallel = pipeline;
  return shape;
}

// Scalasca's direction: from the last wait to the first. Each wait passes its part from later waits on to the
// delays and waits of its causer.
std::vector<double> Backward(const DelayCost& cost, double steps) {
  std::vector<double> longterm(cost.waits.size(), 0), by_causer(cost.direct_ns.size(), 0);
  for (size_t i = cost.waits.size(); i-- > 0;) {
    const ExcessWait& w = cost.waits[i];
    if (w.own < 0) continue;
    const double all = w.ns + longterm[i];
    by_causer[w.causer] += w.own * all / steps;
    if (w.inherited == capture::kNone) continue;
    const Inherited& from = cost.inherited[w.inherited];
    for (uint32_t j = from.first; j < from.last; ++j) {
      const uint32_t before = cost.waits_of[from.rank_index][j];
      if (from.Has(cost.waits[before]))
        longterm[before] += (1 - w.own) * all * cost.waits[before].ns / from.ns;
    }
  }
  return by_causer;
}

TEST(DelayCost, ForwardAndBackwardPassesAgree) {
  for (const auto& shape : {Shape(2, 2, 2), Shape(2, 2, 4), Shape(4, 1, 1)}) {
    const auto s = Solve(shape, FaultKind::kSlowGpu, 1, 0.15);
    const std::vector<double> backward = Backward(s->cost, static_cast<double>(s->gains->steps()));
    for (size_t r = 0; r < backward.size(); ++r) {
      EXPECT_NEAR(s->cost.direct_ns[r] + s->cost.passed_on_ns[r], backward[r], 1e-6 * s->cost.waited_ns)
          << "rank " << r;
    }
  }
}

TEST(DelayCost, AllWaitingIsChargedToARankOrUnexplained) {
  for (const FaultKind kind :
       {FaultKind::kNone, FaultKind::kSlowGpu, FaultKind::kHostStall, FaultKind::kCopy}) {
    const auto s = Solve(Shape(2, 2, 2), kind, 3, 0.2);
    const DelayCost& c = s->cost;
    const auto sum = [](const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); };
    EXPECT_NEAR(sum(c.suffered_ns), c.waited_ns, 1e-6 * c.waited_ns + 1);
    EXPECT_NEAR(sum(c.direct_ns) + sum(c.passed_on_ns) + c.unexplained_ns, c.waited_ns,
                1e-6 * c.waited_ns + 1);
    EXPECT_NEAR(sum(c.matrix), c.waited_ns - c.unexplained_ns, 1e-6 * c.waited_ns + 1);
    // Columns are victims: none is charged with more waiting than it had.
    for (size_t v = 0; v < c.places; ++v) {
      double column = 0;
      for (size_t causer = 0; causer < c.places; ++causer) column += c.matrix[causer * c.places + v];
      EXPECT_LE(column, c.suffered_ns[v] + 1);
    }
  }
}

// The part of [from, to) in which no kernel of the rank computes, counted between the moments at which this
// changes.
double Exposed(const Graph& g, uint32_t rank, double from, double to,
               const std::function<std::pair<double, double>(uint32_t)>& when) {
  std::vector<std::pair<double, int>> turns;
  for (uint32_t u = g.rank_begin[rank]; u < g.rank_begin[rank + 1]; ++u) {
    if (g.units[u].kind != UnitKind::kKernel) continue;
    const auto [start, end] = when(u);
    if (end <= from || start >= to) continue;
    turns.emplace_back(std::max(start, from), 1);
    turns.emplace_back(std::min(end, to), -1);
  }
  std::sort(turns.begin(), turns.end());
  double exposed = 0, at = from;
  int running = 0;
  for (const auto& [moment, change] : turns) {
    if (running == 0) exposed += moment - at;
    running += change;
    at = moment;
  }
  return exposed + std::max(0.0, to - at);
}

// Counts the waits again, from the collectives' parts and a replay of the typical job.
TEST(DelayCost, CountsOnlyWaitingBeyondTheTypicalJob) {
  const auto s = Solve(Shape(2, 2, 2), FaultKind::kSlowGpu, 6, 0.2);
  const Graph& g = s->gains->graph();
  const Schedule schedule(g, s->gains->steps(), FirstEnd(g, *s->input));
  Replay replay(schedule);
  const Timing ideal = s->gains->typical().Ideal();
  replay.Run(ideal);
  double waited = 0;
  size_t count = 0;
  for (size_t n = 0; n < s->prepared->matches.instances.size(); ++n) {
    const capture::Instance& instance = s->prepared->matches.instances[n];
    const InstanceTiming& timing = s->prepared->times.instances[n];
    if (!timing.split || StepOfInstance(s->capture, instance, timing, s->prepared->steps) < 0) continue;
    for (uint32_t u = 0; u < g.units.size(); ++u) {
      if (g.units[u].instance != n) continue;
      const capture::DeviceActivity& a =
          s->capture.ranks[g.units[u].rank_index].activities[g.units[u].source];
      double latest = replay.At(StartOf(u));
      for (uint32_t other = 0; other < g.units.size() && timing.symmetric; ++other) {
        if (g.units[other].instance == n) latest = std::max(latest, replay.At(StartOf(other)));
      }
      for (NodeRef p : g.Awaits(u)) latest = std::max(latest, replay.At(p));
      const Part& part = s->prepared->times.parts[g.units[u].rank_index][a.collective];
      const double wait = static_cast<double>(part.wait.ns());
      const uint32_t r = g.units[u].rank_index;
      const double excess = Exposed(g, r, g.start[u], g.start[u] + wait,
                                    [&](uint32_t k) { return std::pair(g.start[k], g.end[k]); }) -
                            Exposed(g, r, replay.At(StartOf(u)), latest, [&](uint32_t k) {
                              return std::pair(replay.At(StartOf(k)), replay.At(EndOf(k)));
                            });
      if (excess <= 2000 || instance.members[timing.last].rank_index == g.units[u].rank_index) continue;
      waited += excess / static_cast<double>(s->gains->steps());
      ++count;
    }
  }
  EXPECT_GT(count, 100u);
  EXPECT_EQ(count, s->cost.waits.size());
  EXPECT_NEAR(s->cost.waited_ns, waited, 1e-6 * waited);
}

TEST(DelayCost, ChargesWaitingToTheSlowRank) {
  for (const uint32_t rank : {0u, 3u, 6u}) {
    const auto s = Solve(Shape(2, 2, 2), FaultKind::kSlowGpu, rank, 0.25);
    const DelayCost& c = s->cost;
    std::vector<double> total = c.direct_ns;
    for (size_t r = 0; r < total.size(); ++r) total[r] += c.passed_on_ns[r];
    EXPECT_EQ(std::max_element(total.begin(), total.end()) - total.begin(), rank);
    EXPECT_GT(total[rank], 0.7 * c.waited_ns);
    const DelayPath path = FollowDelay(c, *s->gains, rank);
    EXPECT_NEAR(path.waited_ns, total[rank], 1e-6 * total[rank]);
    EXPECT_NEAR(path.direct * path.waited_ns, c.direct_ns[rank], 1e-6 * total[rank]);
    EXPECT_EQ(path.victims, 7u);
    ASSERT_FALSE(path.hops.empty());
    std::vector<uint32_t> reached;
    for (const DelayHop& h : path.hops)
      reached.insert(reached.end(), h.rank_indices.begin(), h.rank_indices.end());
    std::sort(reached.begin(), reached.end());
    EXPECT_EQ(reached.size(), 7u);
    EXPECT_EQ(std::adjacent_find(reached.begin(), reached.end()), reached.end())
        << "each rank is reached once";
  }
}

// Two ranks hand the delay of rank 0 to each other, and each waits equally long every time.
TEST(DelayCost, ARankThatWaitsAtManyHopsBelongsToOneOfThem) {
  const auto s = Solve(Shape(2, 2, 2), FaultKind::kSlowGpu, 0, 0.25);
  DelayCost cost;
  cost.suffered_ns.resize(s->cost.suffered_ns.size());
  cost.waits_of.resize(s->cost.waits_of.size());
  for (uint32_t i = 0; i < 40; ++i) {
    const uint32_t victim = 1 + i % 2, other = 2 - i % 2;
    ExcessWait wait{.unit = 0,
                    .victim = victim,
                    .causer = i == 0 ? 0 : other,
                    .owner = 0,
                    .ns = s->gains->step_ns(),
                    .until = i + 1.0,
                    .own = i == 0 ? 1.0 : 0.0,
                    .inherited = capture::kNone};
    if (i > 0) {
      const auto last = static_cast<uint32_t>(cost.waits_of[other].size());
      wait.inherited = static_cast<uint32_t>(cost.inherited.size());
      cost.inherited.push_back({other, last - 1, last, 0, i + 0.5, wait.ns});
    }
    cost.waits_of[victim].push_back(i);
    cost.waits.push_back(wait);
  }
  const DelayPath path = FollowDelay(cost, *s->gains, 0);
  EXPECT_EQ(path.victims, 2u);
  ASSERT_EQ(path.hops.size(), 2u);
  EXPECT_EQ(path.hops[0].rank_indices, std::vector<uint32_t>{1});
  EXPECT_EQ(path.hops[1].rank_indices, std::vector<uint32_t>{2});
}

TEST(DelayCost, AnEmptyCaptureHasNoCost) {
  const capture::Capture capture;
  const Prepared prepared(capture);
  const GraphInput input = prepared.input();
  Gains gains(input);
  gains.Measure();
  const DelayCost cost = CostDelays(input, gains);
  EXPECT_EQ(cost.waited_ns, 0);
  EXPECT_EQ(FollowDelay(cost, gains, 0).victims, 0u);
}

}  // namespace
}  // namespace lockstep::analysis
