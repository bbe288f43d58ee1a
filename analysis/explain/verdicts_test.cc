// Confidence and first step of findings, compared with all possible resamples and with counting step by step.
#include "analysis/explain/verdicts.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "gtest/gtest.h"

namespace lockstep::analysis {
namespace {

double SumOf(const std::vector<double>& values) {
  double sum = 0;
  for (double v : values) sum += v;
  return sum;
}

double MiddleOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

// Means of every resample: single steps if they are few, otherwise blocks of five that may wrap around the
// end.
std::vector<double> AllMeans(const std::vector<double>& steps) {
  const size_t n = steps.size(), block = n >= 20 ? 5 : 1;
  std::vector<double> sums = {0};
  for (size_t taken = 0; taken < n; taken += block) {
    std::vector<double> next;
    for (double sum : sums) {
      for (size_t first = 0; first < n; ++first) {
        double more = sum;
        for (size_t i = 0; i < block; ++i) more += steps[(first + i) % n];
        next.push_back(more);
      }
    }
    sums = std::move(next);
  }
  for (double& s : sums) s /= static_cast<double>(n);
  return sums;
}

double PartOf(const std::vector<double>& means, const auto& take) {
  return static_cast<double>(std::count_if(means.begin(), means.end(), take)) /
         static_cast<double>(means.size());
}

std::vector<double> Drawn(std::mt19937_64& random, size_t steps, double about) {
  std::normal_distribution<double> normal(about, 30);
  std::vector<double> gain;
  for (size_t k = 0; k < steps; ++k) gain.push_back(normal(random));
  return gain;
}

TEST(Verdicts, ConfidenceIsTheShareOfResamplesAboveTheFloor) {
  std::mt19937_64 random(11);
  int unsure = 0;
  for (int trial = 0; trial < 40; ++trial) {
    const size_t steps = trial % 4 == 0 ? 20 : 3 + random() % 4;
    const double floor = 40;
    Finding f{.rank_indices = {1}, .cause = Cause::kGpuClock};
    f.gain_per_step = Drawn(random, steps, 20 + static_cast<double>(random() % 60));
    f.marginal_gain = Drawn(random, steps, 20 + static_cast<double>(random() % 60));
    const bool others = SumOf(f.marginal_gain) > SumOf(f.gain_per_step);
    const std::vector<double> alone = AllMeans(f.gain_per_step),
                              decides = others ? AllMeans(f.marginal_gain) : alone;
    const double above = PartOf(decides, [&](double m) { return m > floor; });
    const double error = 4 * std::sqrt(above * (1 - above) / 200) + 0.005;  // of 200 draws
    Judge(f, floor, 1, steps, 1);
    EXPECT_NEAR(f.gain_ns, SumOf(f.gain_per_step) / static_cast<double>(steps), 1e-9);
    EXPECT_NEAR(f.confidence.value(), above, error);
    unsure += above > 0.02 && above < 0.98 ? 1 : 0;
    const bool may_be_nothing = BootstrapMean(others ? f.marginal_gain : f.gain_per_step).low <= 0;
    EXPECT_EQ(f.verdict, may_be_nothing || *f.confidence < 0.5 ? Verdict::kUndecided
                         : *f.confidence >= 0.95               ? Verdict::kSure
                                                               : Verdict::kLikely);
    // Quantiles of 200 draws.
    EXPECT_LE(PartOf(alone, [&](double m) { return m < f.gain_interval.low - 1e-9; }), 0.07);
    EXPECT_GE(PartOf(alone, [&](double m) { return m <= f.gain_interval.low + 1e-9; }), 0.002);
    EXPECT_LE(PartOf(alone, [&](double m) { return m > f.gain_interval.high + 1e-9; }), 0.07);
    EXPECT_GE(PartOf(alone, [&](double m) { return m >= f.gain_interval.high - 1e-9; }), 0.002);
  }
  EXPECT_GT(unsure, 10);
}

TEST(Verdicts, AGainThatMayBeNoneIsUndecided) {
  Finding f{.rank_indices = {1}, .cause = Cause::kGpuClock};
  f.gain_per_step = f.marginal_gain = {-10, 0, 0, 300};
  Judge(f, 40, 1, 4, 1);
  EXPECT_GE(*f.confidence, 0.5);
  EXPECT_LE(f.gain_interval.low, 0);
  EXPECT_EQ(f.verdict, Verdict::kUndecided);
}

// One checkpoint in ten steps certainly costs time, though many draws of all steps would miss it.
TEST(Verdicts, TheIntervalKeepsTheNumberOfAffectedSteps) {
  Finding f{.rank_indices = {1}, .cause = Cause::kCheckpoint};
  f.gain_per_step = f.marginal_gain = {0, 1, -1, 0, 900, 0, 1, -1, 0, 0};
  f.is_affected = {0, 0, 0, 0, 1, 0, 0, 0, 0, 0};
  Judge(f, 40, 1, 10, 1);
  EXPECT_NEAR(f.gain_interval.low, 90, 1);
  EXPECT_NEAR(f.gain_interval.high, 90, 1);
  EXPECT_EQ(f.verdict, Verdict::kLikely) << "one step proves little";
}

TEST(Verdicts, AWeakRuleAndIndistinguishablePeersLimitConfidence) {
  const auto judged = [](double rule_share, std::vector<uint32_t> ranks, bool identified, Cause cause,
                         double matched) {
    Finding f{.rank_indices = std::move(ranks), .identified = identified, .cause = cause};
    f.gain_per_step = f.marginal_gain = {100, 110, 90, 105};
    Judge(f, 10, rule_share, 4, matched);
    return f;
  };
  for (const double share : {0.0, 0.2, 0.5, 0.6, 0.69, 0.7, 0.9, 1.0}) {
    const Finding f = judged(share, {1}, true, Cause::kGpuClock, 1);
    // The confidence is the share that the rule explains, but at least one half.
    EXPECT_NEAR(*f.confidence, share >= 0.7 ? 1 : share > 0.5 ? share : 0.5, 1e-12) << share;
    EXPECT_EQ(f.verdict, share >= 0.7 ? Verdict::kSure : Verdict::kLikely) << share;
    EXPECT_NEAR(*judged(share, {1, 4}, false, Cause::kGpuClock, 1).confidence, 0.5, 1e-12);
    EXPECT_EQ(judged(share, {1, 4}, false, Cause::kGpuClock, 1).verdict, Verdict::kUndecided);
  }
  EXPECT_EQ(judged(1, {1}, true, Cause::kUnknown, 1).verdict, Verdict::kLikely);
  EXPECT_EQ(judged(1, {1}, true, Cause::kGpuClock, 0.89).verdict, Verdict::kLikely);
  EXPECT_EQ(judged(1, {1}, true, Cause::kGpuClock, 0.9).verdict, Verdict::kSure);
}

TEST(Verdicts, AffectedStepsCostAtLeastHalfOfTheCostlyOnes) {
  const capture::Capture capture;
  const capture::Matches matches;
  const capture::ClockModel clock;
  const CollectiveTimes times;
  const std::vector<CallIndex> calls;
  std::mt19937_64 random(3);
  int later = 0, over = 0, some = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const size_t steps = 3 + random() % 14, first = random() % steps,
                 last = first + random() % (steps - first);
    Steps names;
    for (size_t k = 0; k < steps; ++k) names.names.push_back(static_cast<int64_t>(200 + 3 * k));
    const GraphInput input{capture, matches, clock, times, names, calls, nullptr};
    // Six units per step, one before and one after the steps. The finding has pieces of many of them.
    Graph graph;
    Finding f;
    std::vector<double> own(steps, 0);
    for (int32_t step = -2; step < static_cast<int32_t>(steps); ++step) {
      for (int i = 0; i < (step < 0 ? 1 : 6); ++i) {
        const auto unit = static_cast<uint32_t>(graph.units.size());
        graph.units.push_back({.rank_index = 0,
                               .step = step,
                               .source = 0,
                               .instance = capture::kNone,
                               .kind = UnitKind::kKernel,
                               .is_head = false});
        if (random() % 4 == 0) continue;
        const bool slow =
            step >= static_cast<int32_t>(first) && step <= static_cast<int32_t>(last) && trial % 5 != 0;
        const double ns = (slow ? 1000.0 : 0.0) + static_cast<double>(random() % 300);
        f.fix.pieces.push_back({random() % 2 == 0 ? StartOf(unit) : EndOf(unit), ns});
        if (step >= 0) own[static_cast<size_t>(step)] += ns;
      }
    }
    DateFinding(f, input, graph);
    double costly = 0, count = 0;
    for (double v : own) {
      if (v * static_cast<double>(steps) < SumOf(own) * (1 - 1e-12)) continue;
      costly += v;
      ++count;
    }
    std::vector<size_t> affected;
    std::vector<double> in, before;
    for (size_t k = 0; k < steps; ++k) {
      if (own[k] >= 0.5 * costly / count) affected.push_back(k), in.push_back(own[k]);
    }
    ASSERT_FALSE(affected.empty());
    for (size_t k = 0; k < affected.front(); ++k) before.push_back(own[k]);
    EXPECT_EQ(f.since_step, static_cast<int64_t>(200 + 3 * affected.front()));
    const bool ended = affected.back() + 1 < steps;
    EXPECT_EQ(f.until_step,
              ended ? std::optional(static_cast<int64_t>(200 + 3 * affected.back())) : std::nullopt);
    EXPECT_NEAR(f.steps_affected, static_cast<double>(affected.size()) / static_cast<double>(steps), 1e-12);
    EXPECT_NEAR(f.since_ns.value(), MiddleOf(in), 1e-9);
    ASSERT_EQ(f.before_ns.has_value(), !before.empty());
    EXPECT_NEAR(f.before_ns.value_or(0), before.empty() ? 0 : MiddleOf(before), 1e-9);
    later += before.empty() ? 0 : 1;
    over += ended ? 1 : 0;
    some += affected.size() < affected.back() + 1 - affected.front() ? 1 : 0;
  }
  for (const int n : {later, over}) EXPECT_GT(n, 10);
  EXPECT_GT(some, 0);
}

}  // namespace
}  // namespace lockstep::analysis
