// Compares the numbers of the verdict, and the answers of what-ifs, with jobs that are simple enough to
// simulate in a few lines (tests/support/plain_job.h). The simulation does not use the code under test.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <random>

#include "absl/strings/str_format.h"
#include "analysis/gains/whatif.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "report/report.h"
#include "tests/support/plain_job.h"
#include "tests/support/report_check.h"

namespace lockstep::report {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

Report ReportOf(const PlainJob& job) {
  Report report = Analyze(CaptureOf(job)).report;
  tests::CheckedJson(report);
  tests::ExpectConsistent(report);
  EXPECT_EQ(report.steps.size(), static_cast<size_t>(job.used()));
  EXPECT_EQ(report.steps[0].step, kFirstStep);
  return report;
}

TEST(ReportVerdict, StepIdealNoiseGainsAndSplitEqualAPlainSimulation) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const PlainJob job = Noisy(seed);
    const Report report = ReportOf(job);
    const Computed c = Compute(job);
    // A fix may gain a little more than the lost time. The ideal step is then the step with that fix.
    double most_gain = 0;
    for (const StragglerRow& s : report.stragglers) most_gain = std::max(most_gain, *s.gain_ns_per_step);
    for (const FixRow& f : report.fixes) most_gain = std::max(most_gain, f.gain_ns_per_step);
    const double step = MeanOf(c.steps), ideal = std::min(c.ideal, step - most_gain), lost = step - ideal;
    for (size_t k = 0; k < c.steps.size(); ++k)
      EXPECT_EQ(static_cast<double>(report.steps[k].duration.ns()), c.steps[k]);
    EXPECT_NEAR(report.slowdown.step_ns.value(), step, 1e-3);
    EXPECT_NEAR(report.slowdown.ideal_step_ns.value(), ideal, 1e-3);
    EXPECT_NEAR(report.slowdown.ratio.value(), step / ideal, 1e-9);
    EXPECT_NEAR(report.slowdown.lost_ns_per_step.value(), lost, 1e-3);
    EXPECT_NEAR(report.slowdown.noise_ns_per_step.value(), MeanOf(c.straggler_free) - c.ideal, 1e-3);
    EXPECT_NEAR(report.efficiency.critical_communication_ns_per_step.value(), c.critical_communication, 1e-3);
    double charged = c.critical_communication * static_cast<double>(c.steps.size()), listed = 0;
    for (const auto& rank : c.lost) charged += Sum(rank);
    for (const StragglerRow& s : report.stragglers) listed += s.lost_ns_per_step;
    const double unlisted =
        charged / static_cast<double>(c.steps.size()) - listed - (MeanOf(c.straggler_free) - c.ideal);
    EXPECT_NEAR(report.slowdown.unlisted_ns_per_step.value(), unlisted, 2e-3 * lost);
    EXPECT_NEAR(report.slowdown.unexplained_ns_per_step.value(), c.ideal - ideal, 2e-3 * lost)
        << "no kernel runs beside a collective";
    for (size_t r = 0; r < c.gains.size(); ++r) {
      EXPECT_NEAR(report.ranks[r].gain_ns_per_step.value(), c.gains[r], 1e-3) << "rank " << r;
      EXPECT_NEAR(report.ranks[r].gain_at_most_ns_per_step.value(), c.bounds[r], 1e-3) << "rank " << r;
      for (size_t k = 0; k < c.steps.size(); ++k) {
        EXPECT_NEAR(static_cast<double>(report.steps[k].ranks[r].lost.value().ns()), c.lost[r][k],
                    2e-3 * lost * static_cast<double>(c.steps.size()) + 1)
            << "rank " << r << " step " << k;
      }
    }
  }
}

TEST(ReportVerdict, DependencyEfficienciesEqualAPlainSimulation) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const PlainJob job = Noisy(seed);
    const Report report = ReportOf(job);
    const Computed c = Compute(job);
    const EfficiencyRow& e = report.efficiency;
    const double without = MeanOf(StepsOf(job, LengthsOf(job), std::vector<double>(c.steps.size(), 0)));
    double elapsed = -1000.0 * kGapUs, compute = 0, sum = 0;
    for (size_t k = 0; k < job.transfers.size(); ++k) {
      double most = 0;
      for (const auto& rank : job.lengths)
        most = std::max(most, 1000.0 * std::accumulate(rank[k].begin(), rank[k].end(), 0));
      elapsed += most + 1000.0 * (kGapUs * (job.kernels + 1) + job.transfers[k]);
    }
    for (const auto& rank : job.lengths) {
      double own = 0;
      for (const auto& s : rank) own += 1000.0 * std::accumulate(s.begin(), s.end(), 0);
      compute = std::max(compute, own);
      sum += own;
    }
    EXPECT_NEAR(e.transfer.value(), without / MeanOf(c.steps), 1e-9);
    EXPECT_NEAR(e.serialisation.value(), compute / elapsed / (without / MeanOf(c.steps)), 1e-9);
    EXPECT_NEAR(e.serialisation_typical.value(), c.ideal_compute / (c.ideal - c.ideal_transfer), 1e-9);
    EXPECT_NEAR(e.serialisation_stragglers.value(), *e.serialisation / *e.serialisation_typical, 1e-9);
    EXPECT_NEAR(e.load_balance_data.value(), sum / job.ranks / compute, 1e-9);
    EXPECT_FALSE(e.load_balance_stage || e.load_balance_tensor);
  }
}

TEST(ReportVerdict, TheSlowdownsIntervalEqualsEnumerationOfAllResamples) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    PlainJob job = Noisy(seed);
    while (job.used() > 7) {
      for (auto& rank : job.lengths) rank.pop_back();
      job.transfers.pop_back();
      --job.steps;
    }
    const Report report = ReportOf(job);
    ASSERT_TRUE(report.slowdown.interval.has_value());
    ExpectInterval(*report.slowdown.interval, Compute(job).steps, 1 / *report.slowdown.ideal_step_ns);
  }
}

// ---- One culprit

void ExpectOneCulprit(const PlainJob& healthy, const Culprit& culprit) {
  const PlainJob job = With(healthy, {culprit});
  const Report report = ReportOf(job);
  const std::vector<double> gain = GainOf(healthy, {culprit}, 1);
  const double part = static_cast<double>(culprit.steps.size()) / job.used(),
               extra = 1000.0 * culprit.extra * job.kernels;
  ASSERT_EQ(report.stragglers.size(), 1u);
  const StragglerRow& s = report.stragglers[0];
  EXPECT_THAT(s.ranks, ElementsAre(RankId(static_cast<int32_t>(culprit.rank))));
  EXPECT_NEAR(s.lost_ns_per_step, extra * part, 1);
  EXPECT_NEAR(s.share.value(), 1, 1e-6);
  EXPECT_NEAR(s.gain_ns_per_step.value(), MeanOf(gain), 1);
  ExpectInterval(s.gain_interval.value(), gain, 1, culprit.steps);
  const double floor = report.slowdown.noise_floor_ns_per_step.value(), above = PartAbove(gain, floor);
  EXPECT_GE(floor, 0.005 * *report.slowdown.step_ns);
  // The tolerance is four standard errors of 200 draws.
  EXPECT_NEAR(s.confidence.value(), above, 4 * std::sqrt(above * (1 - above) / 200) + 0.005);
  EXPECT_EQ(s.since_step, kFirstStep + static_cast<int64_t>(culprit.steps.front()));
  const bool over = culprit.steps.back() + 1 < static_cast<size_t>(job.used());
  EXPECT_EQ(
      s.until_step,
      over ? std::optional<int64_t>(kFirstStep + static_cast<int64_t>(culprit.steps.back())) : std::nullopt);
  EXPECT_NEAR(s.affected_steps, part, 1e-12);
  EXPECT_NEAR(s.excess_since_ns.value(), extra, 1);
  ASSERT_EQ(s.excess_before_ns.has_value(), culprit.steps.front() > 0);
  EXPECT_NEAR(s.excess_before_ns.value_or(0), 0, 1);
  // All others waited for it, and for no other rank.
  EXPECT_EQ(s.delayed_ranks, static_cast<uint32_t>(job.ranks - 1));
  EXPECT_NEAR(s.caused_wait_ns_per_step, extra * part * (job.ranks - 1), 1e-3);
  EXPECT_THAT(
      s.evidence,
      Contains(HasSubstr(absl::StrFormat("last in %d of %d collectives", culprit.steps.size(), job.used()))));
  ASSERT_TRUE(report.waiting.has_value());
  const WaitingRow& w = *report.waiting;
  EXPECT_NEAR(w.waited_ns_per_step, extra * part * (job.ranks - 1), 1);
  EXPECT_NEAR(w.unexplained_ns_per_step, 0, 1);
  ASSERT_EQ(w.causers.size(), 1u);
  EXPECT_EQ(w.causers[0].rank, RankId(static_cast<int32_t>(culprit.rank)));
  EXPECT_NEAR(w.causers[0].direct_ns_per_step, w.waited_ns_per_step, 1);
  EXPECT_NEAR(w.causers[0].passed_on_ns_per_step, 0, 1);
  EXPECT_EQ(w.causers[0].victims, static_cast<uint32_t>(job.ranks - 1));
  ASSERT_EQ(w.cells.size(), static_cast<size_t>(job.ranks - 1));
  for (const WaitingCellRow& cell : w.cells) {
    EXPECT_EQ(w.places[cell.causer], std::to_string(culprit.rank));
    EXPECT_NE(cell.victim, cell.causer);
    EXPECT_NEAR(cell.wait_ns_per_step, extra * part, 1);
  }
  ASSERT_EQ(report.fixes.size(), 1u);
  EXPECT_THAT(report.fixes[0].entries, ElementsAre(0u));
  EXPECT_NEAR(report.fixes[0].gain_ns_per_step, MeanOf(gain), 1);
  ExpectInterval(report.fixes[0].gain_interval.value(), gain, 1, culprit.steps);
}

TEST(ReportVerdict, ACulpritsNumbersEqualTheJobWithoutIt) {
  const std::vector<std::vector<size_t>> in = {
      {0, 1, 2, 3, 4, 5, 6}, {3, 4, 5, 6}, {4, 5}, {0, 1, 2}, {0, 6}, {0, 1, 6}};
  std::mt19937_64 random(5);
  for (size_t i = 0; i < in.size(); ++i) {
    SCOPED_TRACE("steps, case " + std::to_string(i));
    const int ranks = 6 + static_cast<int>(random() % 5);
    ExpectOneCulprit(Uniform(ranks, 7, 5), {1 + random() % static_cast<uint64_t>(ranks - 1),
                                            40 + static_cast<int>(random() % 40), in[i]});
  }
}

// ---- Several culprits

// Returns the fixes as (gain, set of bits), largest gain first. Each set adds the fix that gains most. If no
// single fix adds at least `floor`, the set adds the smallest group that does. Single fixes that gain more
// than `floor` alone are listed as well.
std::vector<std::pair<double, unsigned>> SetsOf(const std::function<double(unsigned)>& gain, unsigned count,
                                                double floor) {
  std::vector<std::pair<double, unsigned>> sets;
  unsigned fixed = 0;
  const unsigned all = (1u << count) - 1;
  while (fixed != all) {
    unsigned best = 0;
    for (int size = 1; size <= static_cast<int>(count) && best == 0; ++size) {
      for (unsigned set = 1; set <= all; ++set) {
        if ((set & fixed) != 0 || __builtin_popcount(set) != size || gain(fixed | set) - gain(fixed) < floor)
          continue;
        if (best == 0 || gain(fixed | set) > gain(fixed | best)) best = set;
      }
    }
    if (best == 0) break;
    fixed |= best;
    sets.emplace_back(gain(fixed), fixed);
  }
  for (unsigned one = 1; one <= all; one <<= 1) {
    const bool there = std::any_of(sets.begin(), sets.end(), [&](const auto& s) { return s.second == one; });
    if (!there && gain(one) > floor) sets.emplace_back(gain(one), one);
  }
  std::sort(sets.begin(), sets.end(), std::greater<>());
  return sets;
}

TEST(ReportVerdict, UnrecordedGraphsBlameNoRankAndPutTheRemedyFirst) {
  capture::Capture capture = CaptureOf(Noisy(1));
  capture.ranks[2].unseen_graph_launches = 40;
  const Report report = Analyze(capture).report;
  tests::CheckedJson(report);
  tests::ExpectConsistent(report);
  EXPECT_TRUE(report.stragglers.empty());
  ASSERT_EQ(report.capture.graphs_not_visible.size(), 1u);
  EXPECT_EQ(report.capture.graphs_not_visible[0].rank, capture.ranks[2].rank);
  const std::string text = RenderText(report);
  EXPECT_THAT(text.substr(0, 200),
              HasSubstr("nothing could be judged: the kernels of 40 launches of CUDA graphs on rank"));
  EXPECT_THAT(text, HasSubstr("LOCKSTEP_PREPARE=always"));
}

TEST(ReportVerdict, SharesAndFixesEqualEnumerationOfAllOrdersAndSets) {
  const std::vector<size_t> always = {0, 1, 2, 3, 4, 5, 6};
  const std::vector<std::vector<Culprit>> cases = {{{2, 80, always}, {5, 50, always}},
                                                   {{1, 60, always}, {4, 60, always}},
                                                   {{3, 90, always}, {6, 70, always}, {7, 40, always}},
                                                   {{2, 60, {0, 1, 2}}, {9, 70, {5, 6}}}};
  for (const std::vector<Culprit>& culprits : cases) {
    SCOPED_TRACE(std::to_string(culprits.size()) + " culprits, the second by " +
                 std::to_string(culprits[1].extra));
    const PlainJob healthy = Uniform(13, 7, 5);
    const Report report = ReportOf(With(healthy, culprits));
    ASSERT_EQ(report.stragglers.size(), culprits.size());
    const auto gain = [&](unsigned set) { return MeanOf(GainOf(healthy, culprits, set)); };
    // For every order of the fixes, adds up the gain of each one; the mean over the orders is its share.
    std::vector<size_t> order(culprits.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::vector<double> share(culprits.size(), 0);
    double orders = 0;
    do {
      unsigned fixed = 0;
      for (size_t i : order) {
        share[i] += gain(fixed | 1u << i) - gain(fixed);
        fixed |= 1u << i;
      }
      ++orders;
    } while (std::next_permutation(order.begin(), order.end()));
    std::map<int32_t, unsigned> bit_of;  // by rank
    for (size_t i = 0; i < culprits.size(); ++i)
      bit_of[static_cast<int32_t>(culprits[i].rank)] = static_cast<unsigned>(i);
    std::vector<unsigned> bit_of_entry;
    for (const StragglerRow& s : report.stragglers) {
      ASSERT_EQ(s.ranks.size(), 1u);
      ASSERT_TRUE(bit_of.contains(s.ranks[0].value()));
      const unsigned bit = bit_of[s.ranks[0].value()];
      bit_of_entry.push_back(bit);
      EXPECT_NEAR(s.lost_ns_per_step, share[bit] / orders, 1);
      EXPECT_NEAR(s.gain_ns_per_step.value(), gain(1u << bit), 1);
    }
    const auto sets =
        SetsOf(gain, static_cast<unsigned>(culprits.size()), *report.slowdown.noise_floor_ns_per_step);
    ASSERT_EQ(report.fixes.size(), sets.size());
    for (size_t i = 0; i < sets.size(); ++i) {
      unsigned reported = 0;
      std::vector<size_t> affected;
      for (uint32_t e : report.fixes[i].entries) {
        const unsigned bit = bit_of_entry[e];
        reported |= 1u << bit;
        affected.insert(affected.end(), culprits[bit].steps.begin(), culprits[bit].steps.end());
      }
      EXPECT_EQ(reported, sets[i].second);
      EXPECT_NEAR(report.fixes[i].gain_ns_per_step, sets[i].first, 1);
      ExpectInterval(report.fixes[i].gain_interval.value(), GainOf(healthy, culprits, reported), 1, affected);
    }
  }
}

// ---- Chance

// Returns, for every assignment of each row's values to ranks, the largest mean over the rows. The first row
// stays fixed.
std::vector<double> EveryTop(const std::vector<std::vector<double>>& rows) {
  std::vector<std::vector<double>> sums = {rows[0]};
  for (size_t b = 1; b < rows.size(); ++b) {
    std::vector<std::vector<double>> next;
    for (const std::vector<double>& sum : sums) {
      std::vector<size_t> place(rows[b].size());
      std::iota(place.begin(), place.end(), size_t{0});
      do {
        next.push_back(sum);
        for (size_t r = 0; r < place.size(); ++r) next.back()[r] += rows[b][place[r]];
      } while (std::next_permutation(place.begin(), place.end()));
    }
    sums = std::move(next);
  }
  std::vector<double> tops;
  for (const auto& s : sums)
    tops.push_back(*std::max_element(s.begin(), s.end()) / static_cast<double>(rows.size()));
  return tops;
}

TEST(ReportVerdict, TheNoiseFloorEqualsEnumerationOfAllLabellings) {
  int above_least = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    std::mt19937_64 random(seed);
    PlainJob job = Uniform(4, 8, 2);
    for (auto& rank : job.lengths) {
      for (auto& step : rank) {
        for (int& length : step) length += static_cast<int>(random() % (seed <= 3 ? 3 : 90));
      }
    }
    const Report report = ReportOf(job);
    ASSERT_TRUE(report.stragglers.empty()) << "listed ones may share their cost anew";
    // Each block has two steps. The values of its slow half mirror those of its fast half.
    std::vector<std::vector<double>> rows;
    for (size_t b = 0; b < 4; ++b) {
      std::vector<double> row;
      for (size_t r = 0; r < 4; ++r) {
        const auto cell = [&](size_t k) {
          return static_cast<double>(report.steps[k].ranks[r].lost.value().ns());
        };
        row.push_back((cell(2 * b) + cell(2 * b + 1)) / 2);
      }
      std::sort(row.begin(), row.end());
      const double middle = (row[1] + row[2]) / 2;
      rows.push_back({row[0] - middle, row[1] - middle, middle - row[1], middle - row[0]});
    }
    std::vector<double> tops = EveryTop(rows);
    std::sort(tops.begin(), tops.end());
    const double least = 0.005 * *report.slowdown.step_ns,
                 floor = report.slowdown.noise_floor_ns_per_step.value();
    ASSERT_GE(floor, least * (1 - 1e-12));
    // The floor must be the 99 % quantile, within the error of 200 draws.
    const auto at = [&](double q) {
      return tops[static_cast<size_t>(q * static_cast<double>(tops.size() - 1))];
    };
    EXPECT_LE(floor, std::max(least, tops.back()) + 2);
    EXPECT_GE(floor, at(0.96) - 2);
    above_least += floor > least * (1 + 1e-12) ? 1 : 0;
  }
  EXPECT_GT(above_least, 0);
}

// ---- What-if

TEST(ReportVerdict, AWhatIfEqualsAPlainSimulation) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const PlainJob job = Noisy(seed);
    const capture::Capture capture = CaptureOf(job);
    const analysis::Prepared prepared(capture);
    const Lengths observed = LengthsOf(job);
    const std::vector<double> transfers = TransfersOf(job), before = StepsOf(job, observed, transfers);
    const auto ask = [&](const char* fix, std::optional<double> scale, double strength,
                         const Lengths& lengths, const std::vector<double>& moved) {
      SCOPED_TRACE(fix);
      const auto targets = analysis::ParseFixTargets(fix);
      ASSERT_TRUE(targets.ok());
      const auto reported = analysis::WhatIf(prepared, {*targets, scale, strength});
      ASSERT_TRUE(reported.ok()) << reported.status();
      const std::vector<double> after = StepsOf(job, lengths, moved);
      EXPECT_EQ(reported->steps, before.size());
      EXPECT_NEAR(reported->step_ns, MeanOf(before), 1e-3);
      EXPECT_NEAR(reported->new_step_ns, MeanOf(after), 1e-3);
      EXPECT_NEAR(reported->gain_ns, MeanOf(before) - MeanOf(after), 1e-3);
      uint64_t named = 0, changed = 0;
      for (size_t k = 0; k < before.size(); ++k) {
        EXPECT_NEAR(reported->gain_per_step[k], before[k] - after[k], 1e-3);
        changed += moved[k] != transfers[k] ? static_cast<uint64_t>(job.ranks) : 0;
        for (size_t r = 0; r < observed.size(); ++r) {
          for (size_t i = 0; i < observed[r][k].size(); ++i)
            changed += lengths[r][k][i] != observed[r][k][i] ? 1 : 0;
        }
      }
      for (const analysis::WhatIfPart& p : reported->parts) named += p.units;
      EXPECT_EQ(reported->units, static_cast<uint64_t>(job.ranks * job.used() * (job.kernels + 1)));
      EXPECT_EQ(reported->units_changed, changed);
      EXPECT_GE(named, changed);
      if (before.size() > 7) return;
      std::vector<double> gain;
      for (size_t k = 0; k < before.size(); ++k) gain.push_back(before[k] - after[k]);
      ExpectInterval({reported->gain_interval->low, reported->gain_interval->high}, gain);
    };
    Lengths lengths = observed;
    Scale(lengths, observed, {1}, {1});
    ask("rank=1", {}, 1, lengths, transfers);
    for (size_t k = 0; k < before.size(); ++k) {
      for (size_t i = 0; i < lengths[1][k].size(); ++i)
        lengths[1][k][i] = 0.5 * (lengths[1][k][i] + observed[1][k][i]);
    }
    ask("rank=1", {}, 0.5, lengths, transfers);
    lengths = observed;
    Scale(lengths, observed, {0, 1}, {0, 1});
    ask("rank=0-1", {}, 1, lengths, transfers);
    lengths = observed;
    for (auto& step : lengths[1]) {
      for (double& length : step) length *= 0.75;
    }
    ask("rank=1", 0.75, 1, lengths, transfers);
    for (size_t r = 0; r < lengths.size(); ++r) lengths[r] = observed[r];
    for (auto& rank : lengths) {
      for (auto& step : rank) {
        for (double& length : step) length *= 1.5;
      }
    }
    ask("op=ampere.*", 1.5, 1, lengths, transfers);
    ask("host=host0", 1.5, 1, lengths, transfers);
    std::vector<double> faster = transfers;
    for (double& transfer : faster) transfer *= 0.25;
    ask("group=world", 0.25, 1, observed, faster);
  }
}

// Each rank does less of another kernel, so the medians add up to a step that no rank has.
TEST(ReportVerdict, WithoutATypicalStepTheReportClaimsNoSlowdown) {
  PlainJob job = Uniform(3, 8, 3);
  for (size_t r = 0; r < 3; ++r) {
    for (auto& step : job.lengths[r]) {
      for (size_t i = 0; i < 3; ++i) step[i] = i == r ? 100 : 1000;
    }
  }
  const Report report = ReportOf(job);
  EXPECT_NEAR(report.slowdown.step_ns.value(), Compute(job).steps[0], 1e-3);
  EXPECT_FALSE(report.slowdown.ideal_step_ns || report.slowdown.ratio || report.slowdown.interval ||
               report.slowdown.lost_ns_per_step);
  EXPECT_FALSE(report.waiting || report.efficiency.serialisation_typical ||
               report.efficiency.critical_communication_ns_per_step);
  EXPECT_FALSE(report.steps[0].ranks[0].lost);
  EXPECT_THAT(report.capture.notes, Contains(HasSubstr("no ideal step is known")));
  const std::string text = RenderText(report, {.width = 200});
  EXPECT_THAT(text, testing::AllOf(testing::StartsWith("NO STRAGGLER FOUND"), HasSubstr("ideal not known"),
                                   testing::Not(HasSubstr("SLOWDOWN"))));
}

}  // namespace
}  // namespace lockstep::report
