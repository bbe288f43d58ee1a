#include "analysis/replay/lost_members.h"

#include <algorithm>
#include <optional>

#include "analysis/replay/shared_follows.h"
#include "capture/align/group_members.h"

namespace lockstep::analysis {
namespace {

using capture::Instance;
using capture::Member;

// A kernel that was launched earlier begins this soon after the operation that it waits for. Members of a
// collective leave at most this far apart.
constexpr double kSoonNs = 20'000;
// Clocks with a larger bound cannot show this.
constexpr Nanos kMostApart = Nanos::Micros(20);

class Finder {
 public:
  Finder(const GraphInput& input, const std::vector<RankUnits>& ranks, const Graph& graph)
      : in_(input), ranks_(ranks), g_(graph), groups_(input.capture) {}

  std::vector<Follow> Run() {
    for (const Instance& instance : in_.matches.instances) {
      if (!instance.usable || instance.complete || !capture::LeavesTogether(instance.op)) continue;
      for (uint32_t r : groups_.Participants(instance.group)) {
        const bool here = std::any_of(instance.members.begin(), instance.members.end(),
                                      [r](const Member& m) { return m.rank_index == r; });
        if (!here && !in_.capture.ranks[r].losses.empty()) Look(instance, r);
      }
    }
    std::sort(found_.begin(), found_.end(), [](const Follow& a, const Follow& b) {
      return a.unit != b.unit ? a.unit < b.unit : a.from < b.from;
    });
    return std::move(found_);
  }

 private:
  uint32_t UnitOfMember(const Member& m) const {
    return ranks_[m.rank_index].first_device +
           in_.capture.ranks[m.rank_index].collectives[m.collective].activity;
  }

  // The member whose clock is nearest to the rank's.
  std::optional<Follow> Nearest(const Instance& instance, uint32_t r, double& tolerance) const {
    std::optional<Follow> best;
    Nanos least = Nanos::Max();
    for (const Member& m : instance.members) {
      const Nanos bound =
          PairBound(in_.clock, in_.capture.ranks[m.rank_index].host, in_.capture.ranks[r].host);
      if (bound > kMostApart || (best && bound >= least)) continue;
      least = bound;
      best = Follow{UnitOfMember(m), 0};
    }
    if (best) tolerance = static_cast<double>(least.ns()) + kRoundingNs;
    return best;
  }

  void Look(const Instance& instance, uint32_t r) {
    double tolerance = 0;
    std::optional<Follow> follow = Nearest(instance, r, tolerance);
    if (!follow) return;
    const double left = g_.end[follow->from];
    const auto first = g_.start.begin() + ranks_[r].first_device, last = g_.start.begin() + ranks_[r].end;
    for (auto next = std::lower_bound(first, last, left - kSoonNs - tolerance);
         next != last && *next <= left + kSoonNs + tolerance; ++next) {
      follow->unit = static_cast<uint32_t>(next - g_.start.begin());
      if (!WaitedForMore(follow->unit, *next)) continue;
      found_.push_back(*follow);
      return;
    }
  }

  // True if the known predecessors ended long before the unit began, so it waited for something else.
  bool WaitedForMore(uint32_t unit, double start) const {
    const auto preds = g_.KnownStartPreds(unit);
    return !preds.empty() && std::all_of(preds.begin(), preds.end(), [&](NodeRef p) {
      return (p % 2 == 0 ? g_.start[UnitOf(p)] : g_.end[UnitOf(p)]) < start - kSoonNs;
    });
  }

  const GraphInput& in_;
  const std::vector<RankUnits>& ranks_;
  const Graph& g_;
  capture::GroupMembers groups_;
  std::vector<Follow> found_;
};

}  // namespace

void FollowLostMembers(const GraphInput& input, const std::vector<RankUnits>& ranks, Graph& graph) {
  InsertFollows(Finder(input, ranks, graph).Run(), graph);
}

}  // namespace lockstep::analysis
