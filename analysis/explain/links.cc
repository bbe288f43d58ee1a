#include "analysis/explain/links.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "analysis/explain/link_culprits.h"
#include "analysis/prepare/stats.h"

namespace lockstep::analysis {
namespace {

// A slow link takes this much longer than its peers, and stands out of the others' spread.
constexpr double kSlowRatio = 1.08;
constexpr double kSlowSigmas = 4.0;
// A single slow step needs more.
constexpr double kSlowStepRatio = 1.15;
constexpr double kSlowStepSigmas = 6.0;
// A middle group needs at least this many groups.
constexpr size_t kLeastForMiddle = 4;
// Kernels beside a transfer lengthen it by at most this share.
constexpr double kMostByWork = 0.1;

}  // namespace

bool IsUncertain(const GraphInput& input, const TransferOwner& owner) {
  if (owner.group >= input.capture.groups.size()) return false;
  const capture::Group& group = input.capture.groups[owner.group];
  if (group.origin != capture::GroupOrigin::kInferred) return false;
  const auto& clocks = input.clock.hosts();
  return group.uncertain || std::any_of(clocks.begin(), clocks.end(), [](const capture::HostClock& clock) {
           return clock.bound == Nanos::Max();
         });
}

bool OnSetClock(const GraphInput& input, std::span<const uint32_t> rank_indices) {
  return std::any_of(rank_indices.begin(), rank_indices.end(), [&](uint32_t r) {
    const uint32_t host = input.capture.ranks[r].host;
    return host < input.clock.hosts().size() && input.clock.hosts()[host].step_noticed;
  });
}

namespace {

class LinkFinder {
 public:
  LinkFinder(const GraphInput& input, const Graph& graph, const Classes& classes, const Excess& excess)
      : in_(input), graph_(graph), classes_(classes), excess_(excess), steps_(input.steps.count()) {}

  LinkFindings Run() {
    Compare();
    if (out_.compared.empty()) return std::move(out_);
    Mark();
    cells_of_owner_.resize(classes_.owners.size());
    for (uint32_t c = 0; c < classes_.cells.size(); ++c) {
      if (classes_.cells[c].kind == UnitKind::kTransfer)
        cells_of_owner_[classes_.cells[c].owner].push_back(c);
    }
    for (LinkCulprit& culprit :
         FindLinkCulprits(in_, graph_, classes_, excess_, cells_of_owner_, out_.compared)) {
      Describe(culprit);
      out_.slow.push_back(std::move(culprit.link));
    }
    return std::move(out_);
  }

 private:
  void Compare() {
    for (uint32_t o = 0; o < classes_.owners.size(); ++o) {
      const ExcessSeries& series = excess_.OfOwner(o);
      if (series.typical_ns <= 0 || IsUncertain(in_, classes_.owners[o])) continue;
      TransferComparison row{.owner = o, .between_hosts = BetweenHosts(o), .excess_ns = series.by_step};
      row.slow.assign(steps_, 0);
      out_.compared.push_back(std::move(row));
    }
    TakeOffStages();
    for (TransferComparison& row : out_.compared) row.ratio = 1 + Median(row.excess_ns) / Typical(row);
  }

  // Subtracts the effect of the work beside the groups of one stage, which slows them equally.
  void TakeOffStages() {
    std::map<int32_t, std::vector<uint32_t>> stages;
    for (uint32_t i = 0; i < out_.compared.size(); ++i) {
      const int32_t stage = excess_.StageOfOwner(out_.compared[i].owner);
      if (stage >= 0) stages[stage].push_back(i);
    }
    for (const auto& [stage, rows] : stages) {
      if (rows.size() < kLeastForMiddle) continue;
      std::vector<double> middles;
      for (uint32_t i : rows)
        middles.push_back(Median(out_.compared[i].excess_ns) / Typical(out_.compared[i]));
      // A bad card slows half of a small stage's groups, or even all of them. So the faster of two middle
      // values counts, limited to the effect of such work.
      const auto faster = middles.begin() + static_cast<std::ptrdiff_t>((middles.size() - 1) / 2);
      std::nth_element(middles.begin(), faster, middles.end());
      const double middle = std::clamp(*faster, -kMostByWork, kMostByWork);
      for (uint32_t i : rows) {
        for (double& e : out_.compared[i].excess_ns) e -= middle * Typical(out_.compared[i]);
      }
    }
  }

  bool BetweenHosts(uint32_t owner) const {
    const auto& members = classes_.owners[owner].rank_indices;
    return std::any_of(members.begin(), members.end(),
                       [&](uint32_t r) { return HostOf(r) != HostOf(members[0]); });
  }
  uint32_t HostOf(uint32_t r) const { return in_.capture.ranks[r].host; }

  // At least half of the values count as healthy.
  static double HealthySigma(std::vector<double> ratios) {
    std::sort(ratios.begin(), ratios.end());
    ratios.resize((ratios.size() + 1) / 2);
    return ScaledMad(ratios);
  }

  void Mark() {
    std::vector<double> ratios, cells;
    for (const TransferComparison& row : out_.compared) {
      ratios.push_back(row.ratio);
      for (double e : row.excess_ns) cells.push_back(e / Typical(row));
    }
    const double limit = std::max(kSlowRatio, 1 + kSlowSigmas * HealthySigma(ratios));
    const double step_limit = std::max(kSlowStepRatio - 1, kSlowStepSigmas * HealthySigma(cells));
    for (TransferComparison& row : out_.compared) {
      // Over many steps, a small excess is certain. In a single step, only a large one is.
      const bool fixed = row.ratio > limit;
      // Setting a clock makes transfers longer or shorter in one step, or from one step on.
      const bool set = OnSetClock(in_, classes_.owners[row.owner].rank_indices);
      size_t slow = 0;
      for (size_t k = 0; k < steps_; ++k) {
        row.slow[k] = fixed || (!set && row.excess_ns[k] > step_limit * Typical(row)) ? 1 : 0;
        slow += row.slow[k];
      }
      row.slow_steps = static_cast<double>(slow) / static_cast<double>(steps_);
    }
  }

  double Typical(const TransferComparison& row) const { return excess_.OfOwner(row.owner).typical_ns; }

  void Describe(LinkCulprit& culprit) {
    SlowLink& link = culprit.link;
    double own = 0, peers = 0;
    std::set<uint32_t> steps;
    // By owner and step: the share of its work that is beyond typical.
    std::map<uint32_t, std::vector<double>> beyond;
    for (const auto& [i, slow_steps] : culprit.steps_of_row) {
      const TransferComparison& row = out_.compared[i];
      std::vector<double>& of_owner = beyond.try_emplace(row.owner, steps_, 0.0).first->second;
      for (uint32_t k : slow_steps) {
        own += Typical(row) + row.excess_ns[k];
        peers += Typical(row);
        steps.insert(k);
        const double took = Typical(row) + row.excess_ns[k];
        if (took > 0) of_owner[k] = row.excess_ns[k] / took;
      }
    }
    link.ratio = peers > 0 ? own / peers : 1;
    link.slow_steps = static_cast<double>(steps.size()) / static_cast<double>(steps_);
    std::vector<uint8_t> of_link(in_.capture.ranks.size(), 0);
    for (uint32_t r : link.rank_indices) of_link[r] = 1;
    for (const TransferComparison& row : out_.compared) {
      if (row.slow_steps != 0) continue;
      const auto& members = classes_.owners[row.owner].rank_indices;
      if (std::any_of(members.begin(), members.end(), [&](uint32_t r) { return of_link[r] != 0; }))
        ++link.inside_normal;
    }
    AddPieces(link, beyond);
  }

  // Appends pieces in the order of the cells.
  void AddPieces(SlowLink& link, const std::map<uint32_t, std::vector<double>>& beyond) {
    std::vector<uint32_t> cells;
    for (const auto& [owner, by_step] : beyond)
      cells.insert(cells.end(), cells_of_owner_[owner].begin(), cells_of_owner_[owner].end());
    std::sort(cells.begin(), cells.end());
    for (uint32_t c : cells) {
      const std::vector<double>& by_step = beyond.at(classes_.cells[c].owner);
      const bool each = MembersDiffer(in_, graph_, classes_, cells_of_owner_[classes_.cells[c].owner]) &&
                        excess_.has_reference(c);
      for (uint32_t u : classes_.UnitsOf(classes_.cells[c])) {
        const int32_t k = graph_.units[u].step;
        if (k < 0 || by_step[static_cast<size_t>(k)] == 0) continue;
        const double beyond_typical = each ? graph_.work[u] - excess_.ReferenceWork(c)
                                           : graph_.work[u] * by_step[static_cast<size_t>(k)];
        if (!each || beyond_typical > 0) link.pieces.push_back({EndOf(u), beyond_typical});
      }
    }
  }

  const GraphInput& in_;
  const Graph& graph_;
  const Classes& classes_;
  const Excess& excess_;
  size_t steps_;
  std::vector<std::vector<uint32_t>> cells_of_owner_;  // cells of transfers, by owner
  LinkFindings out_;
};

}  // namespace

LinkFindings FindSlowLinks(const GraphInput& input, const Graph& graph, const Classes& classes,
                           const Excess& excess) {
  return LinkFinder(input, graph, classes, excess).Run();
}

}  // namespace lockstep::analysis
