#include "tests/support/plain_job.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "capture/model/timeline_builder_fixture.h"
#include "gtest/gtest.h"

namespace lockstep::report {
namespace {

// Returns the median of rank r's i-th kernel over the steps.
double LevelOf(const Lengths& lengths, size_t r, size_t i) {
  std::vector<double> over_steps;
  for (const auto& step : lengths[r]) over_steps.push_back(step[i]);
  return MiddleOf(over_steps);
}

// Returns the median of these levels over the ranks that are not in `without`.
double TypicalOf(const Lengths& lengths, size_t i, const std::vector<size_t>& without) {
  std::vector<double> levels;
  for (size_t r = 0; r < lengths.size(); ++r) {
    if (std::find(without.begin(), without.end(), r) == without.end())
      levels.push_back(LevelOf(lengths, r, i));
  }
  return MiddleOf(levels);
}

}  // namespace

double Sum(const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); }

double MeanOf(const std::vector<double>& v) { return Sum(v) / static_cast<double>(v.size()); }

double MiddleOf(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return (v[(v.size() - 1) / 2] + v[v.size() / 2]) / 2;
}

PlainJob Uniform(int ranks, int used, int kernels) {
  PlainJob job{.ranks = ranks, .steps = used + 1, .kernels = kernels};
  job.lengths.assign(
      static_cast<size_t>(ranks),
      std::vector(static_cast<size_t>(job.steps), std::vector<int>(static_cast<size_t>(kernels), 0)));
  for (auto& rank : job.lengths) {
    for (auto& step : rank) {
      for (int i = 0; i < kernels; ++i) step[static_cast<size_t>(i)] = 200 + 40 * i;
    }
  }
  job.transfers.assign(static_cast<size_t>(job.steps), 90);
  return job;
}

PlainJob Noisy(uint64_t seed) {
  std::mt19937_64 random(seed);
  PlainJob job = Uniform(3 + static_cast<int>(random() % 8), 6 + static_cast<int>(random() % 5), 4);
  const int noise = seed % 2 == 0 ? 4 : 40;
  for (size_t r = 0; r < job.lengths.size(); ++r) {
    const int slower = r == 1 ? static_cast<int>(random() % 30) : 0;
    for (auto& step : job.lengths[r]) {
      for (int& length : step) length += slower + static_cast<int>(random() % static_cast<uint64_t>(noise));
    }
  }
  for (int& transfer : job.transfers) transfer += static_cast<int>(random() % 20);
  return job;
}

PlainJob With(PlainJob job, const std::vector<Culprit>& culprits) {
  for (const Culprit& c : culprits) {
    for (size_t k : c.steps) {
      for (int& length : job.lengths[c.rank][k + 1]) length += c.extra;
    }
  }
  return job;
}

capture::Capture CaptureOf(const PlainJob& job) {
  capture::TimelineBuilder t;
  std::vector<int32_t> all;
  for (int r = 0; r < job.ranks; ++r) all.push_back(r);
  const uint32_t world = t.Group("world", all);
  int64_t begin = 0;
  for (size_t k = 0; k < job.transfers.size(); ++k) {
    std::vector<int64_t> came;
    for (const auto& rank : job.lengths)
      came.push_back(std::accumulate(rank[k].begin(), rank[k].end(), begin) + kGapUs * (job.kernels + 1));
    const int64_t end = *std::max_element(came.begin(), came.end()) + job.transfers[k];
    for (int r = 0; r < job.ranks; ++r) {
      capture::RankTimeline& rank = t.Rank(r);
      int64_t at = begin;
      for (int length : job.lengths[static_cast<size_t>(r)][k]) {
        rank.Kernel("ampere_s16816gemm", static_cast<double>(at + kGapUs), length);
        at += kGapUs + length;
      }
      const int64_t start = came[static_cast<size_t>(r)];
      rank.Communication({.group = world,
                          .source = capture::MatchSource::kNcclSequence,
                          .sequence = static_cast<int64_t>(k),
                          .bytes = 1 << 20},
                         static_cast<double>(start), static_cast<double>(end - start));
      rank.Step(kFirstStep - 1 + static_cast<int>(k), static_cast<double>(begin + 1),
                static_cast<double>(end - begin - 1));
    }
    begin = end;
  }
  return t.Build();
}

Lengths LengthsOf(const PlainJob& job) {
  Lengths out;
  for (const auto& rank : job.lengths) {
    out.emplace_back();
    for (size_t k = 1; k < rank.size(); ++k) out.back().emplace_back(rank[k].begin(), rank[k].end());
  }
  return out;
}

std::vector<double> TransfersOf(const PlainJob& job) {
  return {job.transfers.begin() + 1, job.transfers.end()};
}

std::vector<double> StepsOf(const PlainJob& job, const Lengths& lengths,
                            const std::vector<double>& transfers) {
  std::vector<double> steps;
  for (size_t k = 0; k < transfers.size(); ++k) {
    double most = 0;
    for (const auto& rank : lengths) most = std::max(most, Sum(rank[k]));
    steps.push_back(1000 * (most + kGapUs * (job.kernels + 1) + transfers[k]));
  }
  return steps;
}

void Scale(Lengths& lengths, const Lengths& observed, const std::vector<size_t>& ranks,
           const std::vector<size_t>& without) {
  for (size_t r : ranks) {
    for (size_t i = 0; i < observed[r][0].size(); ++i) {
      const double typical = TypicalOf(observed, i, without), level = LevelOf(observed, r, i);
      for (size_t k = 0; k < observed[r].size(); ++k) {
        const double length = observed[r][k][i];
        lengths[r][k][i] = typical < level ? length * (typical / level) : length + (typical - level);
      }
    }
  }
}

Computed Compute(const PlainJob& job) {
  const Lengths observed = LengthsOf(job);
  const std::vector<double> transfers = TransfersOf(job);
  const size_t ranks = observed.size(), steps = transfers.size();
  Computed c;
  c.steps = StepsOf(job, observed, transfers);
  const double transfer = MiddleOf(transfers);
  std::vector<double> typical;
  for (size_t i = 0; i < observed[0][0].size(); ++i) typical.push_back(TypicalOf(observed, i, {}));
  c.ideal_compute = 1000 * Sum(typical);
  c.ideal_transfer = 1000 * transfer;
  c.ideal = 1000 * (Sum(typical) + kGapUs * (job.kernels + 1) + transfer);
  Lengths straggler_free = observed;
  for (size_t r = 0; r < ranks; ++r) Scale(straggler_free, observed, {r}, {});
  c.straggler_free = StepsOf(job, straggler_free, transfers);
  c.lost.assign(ranks, std::vector<double>(steps, 0));
  c.bounds.assign(ranks, 0);
  for (size_t r = 0; r < ranks; ++r) {
    Lengths fixed = observed;
    Scale(fixed, observed, {r}, {r});
    c.gains.push_back(MeanOf(c.steps) - MeanOf(StepsOf(job, fixed, transfers)));
    for (size_t k = 0; k < steps; ++k) {
      // The ranks that come last share the critical path.
      double most = 0, last = 0;
      for (const auto& other : observed) most = std::max(most, Sum(other[k]));
      for (const auto& other : observed) last += Sum(other[k]) == most ? 1 : 0;
      if (Sum(observed[r][k]) == most)
        c.bounds[r] += 1000 * (most - Sum(fixed[r][k])) / last / static_cast<double>(steps);
    }
  }
  constexpr int kPoints = 2000;
  for (size_t k = 0; k < steps; ++k) {
    c.critical_communication += 1000 * (transfers[k] - transfer) / static_cast<double>(steps);
    for (int p = 0; p < kPoints; ++p) {
      const double way = (p + 0.5) / kPoints;
      double most = -1e18;
      std::vector<double> beyond;
      for (const auto& rank : observed) beyond.push_back(Sum(rank[k]) - Sum(typical));
      for (double b : beyond) most = std::max(most, way * b);
      double last = 0;
      for (double b : beyond) last += way * b == most ? 1 : 0;
      for (size_t r = 0; r < ranks; ++r)
        c.lost[r][k] += way * beyond[r] == most ? 1000 * beyond[r] / last / kPoints : 0;
    }
  }
  return c;
}

std::vector<double> GainOf(const PlainJob& healthy, const std::vector<Culprit>& culprits, unsigned fixed) {
  std::vector<Culprit> left;
  for (size_t i = 0; i < culprits.size(); ++i) {
    if ((fixed >> i & 1u) == 0) left.push_back(culprits[i]);
  }
  const PlainJob with = With(healthy, culprits), without = With(healthy, left);
  std::vector<double> gain = StepsOf(with, LengthsOf(with), TransfersOf(with));
  const std::vector<double> after = StepsOf(without, LengthsOf(without), TransfersOf(without));
  for (size_t k = 0; k < gain.size(); ++k) gain[k] -= after[k];
  return gain;
}

std::vector<double> AllResamples(const std::vector<double>& per_step, const std::vector<size_t>& affected) {
  std::vector<double> sums = {0}, with, without;
  const auto is_affected = [&](size_t k) {
    return affected.empty() || std::find(affected.begin(), affected.end(), k) != affected.end();
  };
  for (size_t k = 0; k < per_step.size(); ++k) (is_affected(k) ? with : without).push_back(per_step[k]);
  for (size_t k = 0; k < per_step.size(); ++k) {
    std::vector<double> next;
    for (double sum : sums) {
      for (double v : is_affected(k) ? with : without) next.push_back(sum + v);
    }
    sums = std::move(next);
  }
  for (double& s : sums) s /= static_cast<double>(per_step.size());
  return sums;
}

double PartAbove(const std::vector<double>& per_step, double floor) {
  const std::vector<double> all = AllResamples(per_step);
  return static_cast<double>(std::count_if(all.begin(), all.end(), [&](double m) { return m > floor; })) /
         static_cast<double>(all.size());
}

void ExpectInterval(const Range& reported, const std::vector<double>& per_step, double scale,
                    const std::vector<size_t>& affected) {
  const std::vector<double> all = AllResamples(per_step, affected);
  const auto part = [&](auto take) {
    return static_cast<double>(std::count_if(all.begin(), all.end(), take)) / static_cast<double>(all.size());
  };
  const double slack = 1e-9 * std::abs(MeanOf(per_step) * scale) + 1e-9;
  EXPECT_LE(part([&](double m) { return m * scale < reported.low - slack; }), 0.07);
  EXPECT_GE(part([&](double m) { return m * scale <= reported.low + slack; }), 0.002);
  EXPECT_LE(part([&](double m) { return m * scale > reported.high + slack; }), 0.07);
  EXPECT_GE(part([&](double m) { return m * scale >= reported.high - slack; }), 0.002);
}

}  // namespace lockstep::report
