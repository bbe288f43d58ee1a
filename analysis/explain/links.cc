#include "analysis/explain/links.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "analysis/prepare/stats.h"

namespace lockstep::analysis {
namespace {

using capture::kNone;

// A slow link takes this much longer than its peers, and stands out of the others' spread.
constexpr double kSlowRatio = 1.08;
constexpr double kSlowSigmas = 4.0;
// A single slow step needs more.
constexpr double kSlowStepRatio = 1.15;
constexpr double kSlowStepSigmas = 6.0;
// The groups of a culprit are slow together for at least this share of their excess.
constexpr double kTogether = 0.75;
constexpr double kFixed = 0.8;
constexpr size_t kSeveral = 3;
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
    CoverByCulprits();
    if (changing_ >= kSeveral) {
      // Several links that are each slow only in some steps are congestion.
      congestion_ = true;
      out_.slow.clear();
      taken_.clear();
      for (size_t i = 0; i < left_.size(); ++i) left_[i] = out_.compared[i].slow;
      CoverByCulprits();
    }
    CoverRest();
    if (out_.slow.empty()) return std::move(out_);
    for (SlowLink& link : out_.slow) Describe(link);
    return std::move(out_);
  }

 private:
  void Compare() {
    row_of_.assign(classes_.owners.size(), kNone);
    for (uint32_t o = 0; o < classes_.owners.size(); ++o) {
      const ExcessSeries& series = excess_.OfOwner(o);
      if (series.typical_ns <= 0 || IsUncertain(in_, classes_.owners[o])) continue;
      TransferComparison row{.owner = o, .between_hosts = BetweenHosts(o), .excess_ns = series.by_step};
      row.slow.assign(steps_, 0);
      row_of_[o] = static_cast<uint32_t>(out_.compared.size());
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
      left_.push_back(row.slow);
    }
  }

  double Typical(const TransferComparison& row) const { return excess_.OfOwner(row.owner).typical_ns; }

  // ---- culprits

  struct Suspect {
    LinkKind kind;
    std::vector<uint32_t> ranks, hosts;
    bool leaves_host = false;
    std::vector<uint32_t> rows;  // all of these must be slow together
  };

  std::vector<Suspect> Suspects() const {
    std::map<uint32_t, std::vector<uint32_t>> of_rank, of_rank_outside, of_host;
    std::map<uint32_t, std::set<uint32_t>> ranks_outside;
    for (uint32_t i = 0; i < out_.compared.size(); ++i) {
      for (uint32_t r : classes_.owners[out_.compared[i].owner].rank_indices) {
        of_rank[r].push_back(i);
        if (!out_.compared[i].between_hosts) continue;
        of_rank_outside[r].push_back(i);
        ranks_outside[HostOf(r)].insert(r);
        if (of_host[HostOf(r)].empty() || of_host[HostOf(r)].back() != i) of_host[HostOf(r)].push_back(i);
      }
    }
    std::vector<Suspect> suspects;
    for (const auto& [r, rows] : of_rank) {
      suspects.push_back({LinkKind::kRank, {r}, {}, false, rows});
      const auto outside = of_rank_outside.find(r);
      if (outside != of_rank_outside.end() && outside->second.size() < rows.size()) {
        suspects.push_back({LinkKind::kRank, {r}, {}, true, outside->second});
      }
    }
    for (const auto& [h, rows] : of_host) {
      if (ranks_outside[h].size() < 2 || rows.size() < 2) continue;
      suspects.push_back(
          {LinkKind::kHost, {ranks_outside[h].begin(), ranks_outside[h].end()}, {h}, true, rows});
    }
    return suspects;
  }

  // The steps in which all transfers of a suspect are slow, and their time beyond typical that is not
  // explained yet.
  struct Fit {
    double explained = 0;  // ns
    double together = 0;   // share of its rows' excess that these steps contain
    std::vector<uint8_t> steps;
  };

  Fit FitOf(const Suspect& suspect) const {
    Fit fit;
    fit.steps.assign(steps_, 0);
    double any = 0;
    for (size_t k = 0; k < steps_; ++k) {
      bool all = true;
      double excess = 0, fresh = 0;
      for (uint32_t i : suspect.rows) {
        const TransferComparison& row = out_.compared[i];
        all &= row.slow[k] != 0;
        if (row.slow[k] != 0) excess += std::max(0.0, row.excess_ns[k]);
        if (left_[i][k] != 0) fresh += std::max(0.0, row.excess_ns[k]);
      }
      any += excess;
      if (!all) continue;
      fit.steps[k] = 1;
      fit.together += excess;
      fit.explained += fresh;
    }
    fit.together = any > 0 ? fit.together / any : 0;
    return fit;
  }

  // Takes the suspects that explain most first. A suspect with a single group is left out, because the
  // group's other members explain it equally well.
  void CoverByCulprits() {
    const std::vector<Suspect> suspects = Suspects();
    while (true) {
      double most = 0;
      Fit best_fit;
      std::vector<const Suspect*> best;
      for (const Suspect& s : suspects) {
        if (s.rows.size() < 2) continue;
        Fit fit = FitOf(s);
        if (fit.together < kTogether || fit.explained <= 0) continue;
        if (congestion_ && !Fixed(fit.steps)) continue;
        if (fit.explained > most * (1 + 1e-9)) {
          most = fit.explained;
          best_fit = std::move(fit);
          best.clear();
        }
        if (fit.explained >= most * (1 - 1e-9) || best.empty()) best.push_back(&s);
      }
      if (best.empty()) return;
      changing_ += Fixed(best_fit.steps) ? 0 : 1;
      AddCulprit(best, best_fit.steps);
    }
  }

  bool Fixed(const std::vector<uint8_t>& steps) const {
    return static_cast<double>(std::count(steps.begin(), steps.end(), 1)) >=
           kFixed * static_cast<double>(steps_);
  }

  void AddCulprit(const std::vector<const Suspect*>& equals, const std::vector<uint8_t>& steps) {
    const Suspect& first = *equals.front();
    SlowLink link{.kind = first.kind,
                  .rank_indices = first.ranks,
                  .hosts = first.hosts,
                  .leaves_host = first.leaves_host};
    // Among equals, only suspects with the same groups cannot be distinguished.
    for (const Suspect* other : equals) {
      if (other == &first || other->rows != first.rows || other->kind != first.kind) continue;
      link.identified = false;
      for (uint32_t r : other->ranks) {
        if (std::find(link.rank_indices.begin(), link.rank_indices.end(), r) == link.rank_indices.end())
          link.rank_indices.push_back(r);
      }
      link.hosts.insert(link.hosts.end(), other->hosts.begin(), other->hosts.end());
    }
    Take(link, first.rows, steps);
  }

  // Marks the rows' slow steps as explained by the link.
  void Take(SlowLink& link, const std::vector<uint32_t>& rows, const std::vector<uint8_t>& steps) {
    for (uint32_t i : rows) {
      bool any = false;
      for (size_t k = 0; k < steps_; ++k) {
        if (steps[k] == 0 || left_[i][k] == 0) continue;
        left_[i][k] = 0;
        any = true;
        taken_[{static_cast<uint32_t>(out_.slow.size()), i}].push_back(static_cast<uint32_t>(k));
      }
      if (any) link.owners.push_back(out_.compared[i].owner);
    }
    out_.slow.push_back(std::move(link));
  }

  // Explains the rest: single groups that are always slow, and groups that are slow in some steps.
  void CoverRest() {
    std::vector<uint32_t> fixed, changing;
    for (uint32_t i = 0; i < out_.compared.size(); ++i) {
      const auto left = static_cast<double>(std::count(left_[i].begin(), left_[i].end(), 1));
      if (left == 0) continue;
      (left >= kFixed * static_cast<double>(steps_) ? fixed : changing).push_back(i);
    }
    CoverByCommonMember(fixed);
    for (uint32_t i : fixed) AddGroup(i);
    // A single slow step is an incident, or a clock that was set.
    std::set<size_t> steps;
    for (uint32_t i : changing) {
      for (size_t k = 0; k < steps_; ++k) {
        if (left_[i][k] != 0) steps.insert(k);
      }
    }
    if (steps.size() < 2) return;
    // One group that is slow for a while has a slow path. Several groups at different times are congestion.
    if (changing.size() == 1) {
      AddGroup(changing[0]);
    } else if (changing.size() > 1) {
      SlowLink link{.kind = LinkKind::kCongestion};
      for (uint32_t i : changing) {
        for (uint32_t r : classes_.owners[out_.compared[i].owner].rank_indices)
          link.rank_indices.push_back(r);
      }
      std::sort(link.rank_indices.begin(), link.rank_indices.end());
      link.rank_indices.erase(std::unique(link.rank_indices.begin(), link.rank_indices.end()),
                              link.rank_indices.end());
      Take(link, changing, std::vector<uint8_t>(steps_, 1));
    }
  }

  // Groups that are always slow and share exactly one rank have that rank in common, although other transfers
  // of the rank are normal: they may take another path. Removes the groups that such a rank explains.
  void CoverByCommonMember(std::vector<uint32_t>& fixed) {
    while (true) {
      std::map<uint32_t, std::vector<uint32_t>> of_rank;
      for (uint32_t i : fixed) {
        for (uint32_t r : classes_.owners[out_.compared[i].owner].rank_indices) of_rank[r].push_back(i);
      }
      const std::vector<uint32_t>* best = nullptr;
      uint32_t culprit = kNone;
      double most = 0;
      for (const auto& [r, rows] : of_rank) {
        double explained = 0;
        for (uint32_t i : rows) explained += Median(out_.compared[i].excess_ns);
        if (!OnlyCommonMember(rows) || explained <= most) continue;
        most = explained;
        culprit = r;
        best = &rows;
      }
      if (best == nullptr) return;
      SlowLink link{.kind = LinkKind::kRank, .rank_indices = {culprit}, .is_certain = false};
      Take(link, *best, std::vector<uint8_t>(steps_, 1));
      std::erase_if(fixed,
                    [&](uint32_t i) { return std::find(best->begin(), best->end(), i) != best->end(); });
    }
  }

  // True if the rows have one rank in common, and not two.
  bool OnlyCommonMember(const std::vector<uint32_t>& rows) const {
    std::map<uint32_t, size_t> count;
    for (uint32_t i : rows) {
      for (uint32_t r : classes_.owners[out_.compared[i].owner].rank_indices) ++count[r];
    }
    return std::count_if(count.begin(), count.end(),
                         [&](const auto& one) { return one.second == rows.size(); }) == 1;
  }

  // True if each member of the group needs only as long as its own partners take.
  bool MembersDiffer(uint32_t owner) const {
    const std::vector<uint32_t>& cells = cells_of_owner_[owner];
    if (cells.empty()) return false;
    const uint32_t unit = classes_.UnitsOf(classes_.cells[cells.front()]).front();
    return in_.matches.instances[graph_.units[unit].instance].op == capture::CollectiveOp::kAllToAllV;
  }

  // Time of each member in such a group, relative to the reference.
  std::map<uint32_t, double> MemberRatios(uint32_t owner) const {
    std::map<uint32_t, std::pair<double, double>> sums;
    for (uint32_t c : cells_of_owner_[owner]) {
      if (!excess_.has_reference(c)) continue;
      for (uint32_t u : classes_.UnitsOf(classes_.cells[c])) {
        auto& [own, reference] = sums[graph_.units[u].rank_index];
        own += graph_.work[u];
        reference += excess_.ReferenceWork(c);
      }
    }
    std::map<uint32_t, double> ratios;
    for (const auto& [r, sum] : sums) ratios[r] = sum.second > 0 ? sum.first / sum.second : 1;
    return ratios;
  }

  // A rank whose path out of its host is slow delays itself and the members on all other hosts. The members
  // on its own host take another path. kNone: the slow members are not those of one rank.
  uint32_t RankWithSlowPathOut(uint32_t owner) const {
    const std::map<uint32_t, double> ratios = MemberRatios(owner);
    double slowest = 1;
    for (const auto& [r, ratio] : ratios) slowest = std::max(slowest, ratio);
    const double limit = 1 + (slowest - 1) / 2;
    uint32_t found = kNone;
    for (const auto& candidate : ratios) {
      const uint32_t suspect = candidate.first;
      size_t normal = 0;
      const bool fits = std::all_of(ratios.begin(), ratios.end(), [&](const auto& member) {
        const bool expected = member.first == suspect || HostOf(member.first) != HostOf(suspect);
        normal += expected ? 0 : 1;
        return expected == (member.second > limit);
      });
      if (!fits || normal == 0) continue;
      if (found != kNone) return kNone;
      found = suspect;
    }
    return found;
  }

  void AddGroup(uint32_t i) {
    SlowLink link{.kind = LinkKind::kGroup};
    if (const uint32_t owner = out_.compared[i].owner; MembersDiffer(owner)) {
      if (const uint32_t culprit = RankWithSlowPathOut(owner); culprit != kNone) {
        link = {.kind = LinkKind::kRank, .rank_indices = {culprit}, .leaves_host = true};
        return Take(link, {i}, std::vector<uint8_t>(steps_, 1));
      }
    }
    // A member with another group that is not always slow is cleared. The others are suspects.
    std::vector<uint32_t> suspects;
    for (uint32_t r : classes_.owners[out_.compared[i].owner].rank_indices) {
      const std::vector<uint32_t>& rows = RowsOfRank(r);
      const bool cleared = std::any_of(rows.begin(), rows.end(), [&](uint32_t other) {
        return other != i && out_.compared[other].slow_steps < kFixed;
      });
      if (!cleared) suspects.push_back(r);
    }
    const auto& members = classes_.owners[out_.compared[i].owner].rank_indices;
    if (suspects.empty() || suspects.size() == members.size()) {
      // If all members are cleared, or none is, the culprit is the path that they share. If none is cleared,
      // it may also be one of the members.
      link.rank_indices = members;
      link.is_certain = suspects.empty();
    } else {
      link.kind = LinkKind::kRank;
      link.rank_indices = suspects;
      link.identified = suspects.size() == 1;
    }
    Take(link, {i}, std::vector<uint8_t>(steps_, 1));
  }

  const std::vector<uint32_t>& RowsOfRank(uint32_t r) {
    if (rows_of_rank_.empty()) {
      rows_of_rank_.resize(in_.capture.ranks.size());
      for (uint32_t i = 0; i < out_.compared.size(); ++i) {
        for (uint32_t member : classes_.owners[out_.compared[i].owner].rank_indices)
          rows_of_rank_[member].push_back(i);
      }
    }
    return rows_of_rank_[r];
  }

  // ---- figures

  void Describe(SlowLink& link) {
    const auto number = static_cast<uint32_t>(&link - out_.slow.data());
    double own = 0, peers = 0;
    std::set<uint32_t> steps;
    // By owner and step: the share of its work that is beyond typical.
    std::map<uint32_t, std::vector<double>> beyond;
    for (auto it = taken_.lower_bound({number, 0}); it != taken_.end() && it->first.first == number; ++it) {
      const TransferComparison& row = out_.compared[it->first.second];
      std::vector<double>& of_owner = beyond.try_emplace(row.owner, steps_, 0.0).first->second;
      for (uint32_t k : it->second) {
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
      const bool each = MembersDiffer(classes_.cells[c].owner) && excess_.has_reference(c);
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
  std::vector<uint32_t> row_of_;                       // by owner
  std::vector<std::vector<uint32_t>> cells_of_owner_;  // cells of transfers, by owner
  std::vector<std::vector<uint32_t>> rows_of_rank_;    // built on first use
  std::vector<std::vector<uint8_t>> left_;             // by row and step: slow and not yet explained
  std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> taken_;  // (link, row): steps
  size_t changing_ = 0;      // number of culprits that are not slow throughout
  bool congestion_ = false;  // congestion was found, so only culprits that are slow throughout count
  LinkFindings out_;
};

}  // namespace

LinkFindings FindSlowLinks(const GraphInput& input, const Graph& graph, const Classes& classes,
                           const Excess& excess) {
  return LinkFinder(input, graph, classes, excess).Run();
}

}  // namespace lockstep::analysis
