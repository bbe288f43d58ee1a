#include "analysis/replay/hidden_barriers.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "analysis/replay/shared_follows.h"
#include "capture/align/group_members.h"

namespace lockstep::analysis {
namespace {

// Shorter idle times are not examined.
constexpr double kLeastIdleNs = 1e6;
// Shares of the longest idle time: members begin within the first one of each other, and within the second
// one of the end of the last member's work.
constexpr double kTogether = 0.05, kSoon = 0.1;
constexpr size_t kLeastMembers = 3;
// A barrier shows in this many steps, and in this share of the steps in which a member is idle.
constexpr size_t kLeastShown = 3;
constexpr double kShown = 0.5;

// The n-th operation of a name in a step.
struct Place {
  NameId name;
  uint32_t nth;
  bool operator<(const Place& other) const { return std::tie(name, nth) < std::tie(other.name, other.nth); }
};

// An operation of one rank, and the work that it finished last before.
struct Arrival {
  uint32_t rank_index;
  uint32_t unit;
  uint32_t before = capture::kNone;  // unit
  double ready = 0;                  // end of `before`
};

class BarrierFinder {
 public:
  BarrierFinder(const GraphInput& input, const std::vector<RankUnits>& ranks, const Graph& graph)
      : in_(input), ranks_(ranks), g_(graph), members_(input.capture) {}

  std::vector<Follow> Run() {
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      ForEachArrival(r, [&](const Place& place, int32_t, const Arrival& a) {
        if (IdleOf(a) >= kLeastIdleNs) arrivals_.try_emplace(place, in_.steps.count());
      });
    }
    if (arrivals_.empty()) return {};
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      ForEachArrival(r, [&](const Place& place, int32_t step, const Arrival& a) {
        const auto found = arrivals_.find(place);
        if (found != arrivals_.end()) found->second[static_cast<size_t>(step)].push_back(a);
      });
    }
    for (uint32_t group = 0; group < members_.groups(); ++group) {
      const std::vector<uint32_t>& ranks = members_.Participants(group);
      if (ranks.size() < kLeastMembers) continue;
      for (const auto& [place, steps] : arrivals_) Examine(ranks, steps);
    }
    std::sort(found_.begin(), found_.end(), [](const Follow& a, const Follow& b) {
      return std::tie(a.unit, a.from) < std::tie(b.unit, b.from);
    });
    const auto same = [](const Follow& a, const Follow& b) { return a.unit == b.unit && a.from == b.from; };
    found_.erase(std::unique(found_.begin(), found_.end(), same), found_.end());
    return std::move(found_);
  }

 private:
  using OfStep = std::vector<Arrival>;  // by rank index, ascending

  // Calls use(place, step, arrival) for the rank's operations in used steps. Skips ranks with host records.
  template <typename Use>
  void ForEachArrival(uint32_t r, const Use& use) const {
    if (g_.HasHost(r)) return;
    absl::flat_hash_map<std::pair<int32_t, NameId>, uint32_t> count;
    uint32_t before = capture::kNone;
    double ready = 0;
    for (uint32_t u = ranks_[r].first_device; u < ranks_[r].end; ++u) {
      const Unit& unit = g_.units[u];
      if (unit.step >= 0) {
        const NameId name = in_.capture.ranks[r].activities[unit.source].name;
        use(Place{name, count[{unit.step, name}]++}, unit.step, Arrival{r, u, before, ready});
      }
      if (before == capture::kNone || g_.end[u] > ready) {
        before = u;
        ready = g_.end[u];
      }
    }
  }

  double IdleOf(const Arrival& a) const {
    return a.before == capture::kNone ? 0 : g_.start[a.unit] - a.ready;
  }

  void Examine(const std::vector<uint32_t>& ranks, const std::vector<OfStep>& steps) {
    std::vector<Follow> seen;
    size_t shown = 0, idle = 0;
    for (const OfStep& step : steps) {
      std::vector<const Arrival*> arrivals;
      double longest = 0;
      for (const Arrival& a : step) {
        if (!std::binary_search(ranks.begin(), ranks.end(), a.rank_index)) continue;
        arrivals.push_back(&a);
        longest = std::max(longest, IdleOf(a));
      }
      if (longest < kLeastIdleNs) continue;
      ++idle;
      if (arrivals.size() == ranks.size() && AddIfTogether(arrivals, longest, seen)) ++shown;
    }
    if (shown >= kLeastShown && static_cast<double>(shown) >= kShown * static_cast<double>(idle))
      found_.insert(found_.end(), seen.begin(), seen.end());
  }

  // Adds what the members wait for in this step. Returns false if they do not begin together after the last
  // one was ready.
  bool AddIfTogether(const std::vector<const Arrival*>& arrivals, double longest,
                     std::vector<Follow>& seen) const {
    const Arrival& last =
        **std::max_element(arrivals.begin(), arrivals.end(),
                           [](const Arrival* a, const Arrival* b) { return a->ready < b->ready; });
    double first = 0, latest = 0;
    for (const Arrival* a : arrivals) {
      if (a == &last) continue;
      const double start = g_.start[a->unit];
      first = first == 0 ? start : std::min(first, start);
      latest = std::max(latest, start);
    }
    if (first < last.ready - kRoundingNs || first - last.ready > kSoon * longest ||
        latest - first > kTogether * longest)
      return false;
    for (const Arrival* a : arrivals) {
      if (a != &last && IdleOf(*a) >= kLeastIdleNs) seen.push_back({last.before, a->unit});
    }
    return true;
  }

  const GraphInput& in_;
  const std::vector<RankUnits>& ranks_;
  const Graph& g_;
  capture::GroupMembers members_;
  std::map<Place, std::vector<OfStep>> arrivals_;  // by step; only places at which a rank is idle
  std::vector<Follow> found_;
};

}  // namespace

void FollowHiddenBarriers(const GraphInput& input, const std::vector<RankUnits>& ranks, Graph& graph) {
  InsertFollows(BarrierFinder(input, ranks, graph).Run(), graph);
}

}  // namespace lockstep::analysis
