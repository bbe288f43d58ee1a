#include "analysis/gains/delay_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "analysis/gains/excess_work.h"

namespace lockstep::analysis {
namespace {

using capture::Instance;
using capture::kNone;
using capture::Member;

// Smaller waits are rounding, or the order in which kernels leave.
constexpr double kLeastWaitNs = 2'000;
// In a large job, at most this many origins of a wait are followed, the largest first. The rest counts as
// unexplained.
constexpr size_t kOrigins = 16;

constexpr double kNever = -std::numeric_limits<double>::infinity();

struct Origin {
  uint32_t rank;
  double part;
};

// Measures the part of an interval that a set of intervals covers.
class Coverage {
 public:
  // `intervals` may be in any order and may overlap.
  explicit Coverage(std::vector<std::pair<double, double>> intervals) {
    if (!std::is_sorted(intervals.begin(), intervals.end())) std::sort(intervals.begin(), intervals.end());
    double sum = 0;
    for (const auto& [start, end] : intervals) {
      if (end <= start) continue;
      if (!merged_.empty() && start <= merged_.back().end) {
        sum += std::max(0.0, end - merged_.back().end);
        merged_.back().end = std::max(merged_.back().end, end);
      } else {
        merged_.push_back({start, end, sum});
        sum += end - start;
      }
    }
  }
  double Within(double from, double to) const { return to > from ? Before(to) - Before(from) : 0; }

 private:
  struct Interval {
    double start, end;
    double before;  // covered before it starts
  };
  double Before(double t) const {
    auto after = std::upper_bound(merged_.begin(), merged_.end(), t,
                                  [](double at, const Interval& i) { return at < i.start; });
    if (after == merged_.begin()) return 0;
    --after;
    return after->before + std::min(t, after->end) - after->start;
  }
  std::vector<Interval> merged_;
};

// Charges every wait to its origins.
class DelayCharger {
 public:
  DelayCharger(const GraphInput& input, const Gains& gains)
      : in_(input),
        gains_(gains),
        graph_(gains.graph()),
        owners_(gains.classes().owners),
        excess_(input, gains) {}

  DelayCost Run() {
    const size_t ranks = in_.capture.ranks.size();
    out_.direct_ns.assign(ranks, 0);
    out_.passed_on_ns.assign(ranks, 0);
    out_.suffered_ns.assign(ranks, 0);
    out_.waits_of.resize(ranks);
    PlaceRanks();
    owners_of_.resize(ranks);
    for (uint32_t o = 0; o < owners_.size(); ++o) {
      const std::vector<uint32_t>& ranks_of = owners_[o].rank_indices;
      for (uint32_t i = 0; i < ranks_of.size(); ++i) owners_of_[ranks_of[i]].push_back({o, i});
    }
    for (uint32_t r = 0; r < ranks; ++r) CoverCompute(r);
    met_.resize(owners_.size());
    marked_.assign(owners_.size(), kNone);
    Collect();
    // In order of time, because the origins of a wait ended before it.
    std::sort(pending_.begin(), pending_.end());
    for (const Pending& p : pending_) Charge(p);
    for (std::vector<double>* values :
         {&out_.direct_ns, &out_.passed_on_ns, &out_.suffered_ns, &out_.matrix}) {
      for (double& v : *values) v /= Steps();
    }
    out_.waited_ns /= Steps();
    out_.unexplained_ns /= Steps();
    return std::move(out_);
  }

 private:
  double Steps() const { return static_cast<double>(gains_.steps()); }

  void PlaceRanks() {
    const size_t ranks = in_.capture.ranks.size();
    out_.by_host = ranks > kMatrixRanks;
    for (uint32_t r = 0; r < ranks; ++r) {
      const uint32_t host = in_.capture.ranks[r].host;
      out_.place_of.push_back(!out_.by_host ? r
                              : host < in_.capture.hosts.size()
                                  ? host
                                  : static_cast<uint32_t>(in_.capture.hosts.size()));
      out_.places = std::max<size_t>(out_.places, out_.place_of.back() + 1);
    }
    out_.matrix.assign(out_.places * out_.places, 0);
    sums_.assign(ranks, 0);
  }

  void CoverCompute(uint32_t r) {
    const Moments ideal = gains_.ideal_moments();
    std::vector<std::pair<double, double>> observed, typical;
    for (uint32_t u = graph_.rank_begin[r]; u < graph_.rank_begin[r + 1]; ++u) {
      if (graph_.units[u].kind != UnitKind::kKernel) continue;
      observed.emplace_back(graph_.start[u], graph_.end[u]);
      typical.emplace_back(ideal[StartOf(u)], ideal[EndOf(u)]);
    }
    compute_.emplace_back(std::move(observed));
    ideal_compute_.emplace_back(std::move(typical));
  }

  struct Pending {
    double until;
    uint32_t instance, member;
    double ns;
    bool operator<(const Pending& o) const {
      return std::tie(until, instance, member) < std::tie(o.until, o.instance, o.member);
    }
  };

  // Collects every excess wait, and the times at which ranks met.
  void Collect() {
    first_moment_.assign(in_.matches.instances.size(), 0);
    for (uint32_t n = 0; n < in_.matches.instances.size(); ++n) {
      const Instance& instance = in_.matches.instances[n];
      const InstanceTiming& timing = in_.times.instances[n];
      if (!instance.usable) continue;
      // A member's index in an instance must be its index in the owner, so an instance with a lost record is
      // left out.
      if (instance.members.size() !=
          gains_.classes().owners[gains_.classes().owner_of_instance[n]].rank_indices.size())
        continue;
      first_moment_[n] = moments_.size();
      for (const Member& m : instance.members) moments_.push_back(Moment(m));
      met_[gains_.classes().owner_of_instance[n]].push_back({moments_[first_moment_[n]], n});
      if (!timing.split || timing.last == kNone ||
          StepOfInstance(in_.capture, instance, timing, in_.steps) < 0)
        continue;
      const double latest = LatestIdealStart(instance);
      for (uint32_t i = 0; i < instance.members.size(); ++i) {
        if (i == timing.last) continue;
        const double ns = Excess(instance, timing, instance.members[i], latest);
        if (ns > 0) pending_.push_back({MomentIn(n, i), n, i, ns});
      }
    }
    for (auto& list : met_) std::sort(list.begin(), list.end());
  }

  // The latest start of a collective's members in the typical job; kNever if they do not all wait for each
  // other.
  double LatestIdealStart(const Instance& instance) const {
    double latest = kNever;
    if (!graph_.InBarrier(excess_.UnitOfMember(in_.capture, instance.members[0]))) return latest;
    const Moments ideal = gains_.ideal_moments();
    for (const Member& m : instance.members)
      latest = std::max(latest, ideal.Start(excess_.UnitOfMember(in_.capture, m)));
    return latest;
  }

  double Excess(const Instance& instance, const InstanceTiming& timing, const Member& m,
                double latest_of_all) const {
    const Part& part = in_.times.parts[m.rank_index][m.collective];
    if (!part.split) return 0;
    const Moments ideal = gains_.ideal_moments();
    const uint32_t u = excess_.UnitOfMember(in_.capture, m);
    double latest = std::max(ideal[StartOf(u)], latest_of_all);
    for (NodeRef p : graph_.Awaits(u)) latest = std::max(latest, ideal[p]);
    const double start = graph_.start[u], ideal_start = ideal[StartOf(u)],
                 wait = static_cast<double>(part.wait.ns());
    const double exposed = wait - compute_[m.rank_index].Within(start, start + wait);
    const double ideal_exposed =
        latest - ideal_start - ideal_compute_[m.rank_index].Within(ideal_start, latest);
    const double excess = exposed - ideal_exposed;
    // A wait that needs clocks is known only to within their bound.
    double least = kLeastWaitNs;
    if (!timing.symmetric) {
      const Nanos bound = PairBound(in_.clock, in_.capture.ranks[m.rank_index].host,
                                    in_.capture.ranks[instance.members[timing.last].rank_index].host);
      if (bound == Nanos::Max()) return 0;
      least = std::max(least, static_cast<double>(bound.ns()));
    }
    return excess > least ? excess : 0;
  }

  // The last instance in which both took part before they met here; kNone: none was recorded. Stores its time
  // for each of them in met_victim_ and met_causer_.
  uint32_t LastSyncPoint(uint32_t victim, double victim_now, uint32_t causer, double causer_now) {
    met_causer_ = met_victim_ = kNever;
    for (const Place& p : owners_of_[causer]) marked_[p.owner] = p.member;
    uint32_t best = kNone;
    double latest = kNever;
    for (const auto& [o, victims_place] : owners_of_[victim]) {
      const uint32_t causers_place = marked_[o];
      if (causers_place == kNone) continue;
      auto next = std::lower_bound(met_[o].begin(), met_[o].end(), std::pair(causer_now, 0u));
      while (next != met_[o].begin()) {
        const uint32_t n = (--next)->second;
        const double moment = MomentIn(n, causers_place);
        if (moment <= latest) break;
        if (moment >= causer_now || MomentIn(n, victims_place) >= victim_now) continue;
        met_causer_ = moment;
        met_victim_ = MomentIn(n, victims_place);
        latest = moment;
        best = n;
        break;
      }
    }
    for (const Place& p : owners_of_[causer]) marked_[p.owner] = kNone;
    return best;
  }

  // The time at which the rank's waiting in that instance ended.
  double Moment(const Member& m) const {
    const Part& part = in_.times.parts[m.rank_index][m.collective];
    return graph_.start[excess_.UnitOfMember(in_.capture, m)] + static_cast<double>(part.wait.ns());
  }
  double MomentIn(uint32_t n, uint32_t member) const { return moments_[first_moment_[n] + member]; }

  void Charge(const Pending& pending) {
    const Instance& instance = in_.matches.instances[pending.instance];
    const Member& victim = instance.members[pending.member];
    const Member& causer = instance.members[in_.times.instances[pending.instance].last];
    const double causer_to = MomentIn(pending.instance, in_.times.instances[pending.instance].last),
                 victim_to = pending.until;
    const uint32_t met = LastSyncPoint(victim.rank_index, victim_to, causer.rank_index, causer_to);
    const double more = excess_.MoreThan(causer.rank_index, met_causer_, causer_to, victim.rank_index,
                                         met_victim_, victim_to);
    const auto [known, fresh] = inherited_.try_emplace({pending.instance, met}, kNone);
    if (fresh) known->second = InheritedOf(causer.rank_index, met_causer_, causer_to);
    const uint32_t inherited = known->second;
    const double waited = inherited == kNone ? 0 : out_.inherited[inherited].ns;
    const double own = more + waited > 0 ? more / (more + waited) : -1;
    out_.waits_of[victim.rank_index].push_back(static_cast<uint32_t>(out_.waits.size()));
    out_.waits.push_back({.unit = excess_.UnitOfMember(in_.capture, victim),
                          .victim = victim.rank_index,
                          .causer = causer.rank_index,
                          .owner = gains_.classes().owner_of_instance[pending.instance],
                          .ns = pending.ns,
                          .until = victim_to,
                          .own = own,
                          .inherited = inherited});
    Charge(out_.waits.back());
  }

  void Charge(const ExcessWait& wait) {
    out_.waited_ns += wait.ns;
    out_.suffered_ns[wait.victim] += wait.ns;
    double left = wait.ns;
    if (wait.own >= 0) {
      const double direct = wait.ns * wait.own;
      out_.direct_ns[wait.causer] += direct;
      Cell(wait.causer, wait.victim) += direct;
      left -= direct;
    }
    if (wait.inherited != kNone && wait.own >= 0) {
      const double passed = wait.ns * (1 - wait.own);
      for (const Origin& o : origins_[wait.inherited]) {
        out_.passed_on_ns[o.rank] += passed * o.part;
        Cell(o.rank, wait.victim) += passed * o.part;
        left -= passed * o.part;
      }
    }
    out_.unexplained_ns += left;
  }

  double& Cell(uint32_t causer, uint32_t victim) {
    return out_.matrix[out_.place_of[causer] * out_.places + out_.place_of[victim]];
  }

  // The causer's own waiting in between, and its origins.
  uint32_t InheritedOf(uint32_t causer, double from, double to) {
    const std::vector<uint32_t>& waits = out_.waits_of[causer];
    uint32_t first = static_cast<uint32_t>(waits.size());
    const auto last = first;
    while (first > 0 && out_.waits[waits[first - 1]].until > from) --first;
    Inherited all{causer, first, last, from, to, 0};
    for (uint32_t i = first; i < last; ++i) {
      if (all.Has(out_.waits[waits[i]])) all.ns += out_.waits[waits[i]].ns;
    }
    if (all.ns <= 0) return kNone;
    origins_.push_back(OriginsOf(all));
    out_.inherited.push_back(all);
    return static_cast<uint32_t>(out_.inherited.size()) - 1;
  }

  std::vector<Origin> OriginsOf(const Inherited& all) {
    touched_.clear();
    const auto add = [&](uint32_t rank, double part) {
      if (sums_[rank] == 0) touched_.push_back(rank);
      sums_[rank] += part;
    };
    for (uint32_t i = all.first; i < all.last; ++i) {
      const ExcessWait& w = out_.waits[out_.waits_of[all.rank_index][i]];
      if (!all.Has(w) || w.own < 0) continue;
      if (w.own > 0) add(w.causer, w.own * w.ns / all.ns);
      if (w.inherited == kNone) continue;
      for (const Origin& o : origins_[w.inherited]) add(o.rank, (1 - w.own) * o.part * w.ns / all.ns);
    }
    std::vector<Origin> origins;
    for (uint32_t r : touched_) {
      origins.push_back({r, sums_[r]});
      sums_[r] = 0;
    }
    const size_t most = out_.by_host ? kOrigins : kMatrixRanks;
    std::sort(origins.begin(), origins.end(), [](const Origin& a, const Origin& b) {
      return a.part != b.part ? a.part > b.part : a.rank < b.rank;
    });
    if (origins.size() > most) origins.resize(most);
    return origins;
  }

  const GraphInput& in_;
  const Gains& gains_;
  const Graph& graph_;
  const std::vector<TransferOwner>& owners_;
  ExcessWork excess_;
  std::vector<Coverage> compute_, ideal_compute_;  // by rank index
  struct Place {
    uint32_t owner;
    uint32_t member;  // index among its members, which is the same in every instance used
  };
  std::vector<std::vector<Place>> owners_of_;  // by rank index
  double met_causer_ = 0, met_victim_ = 0;
  std::vector<size_t> first_moment_;  // by instance used: index of its first member in moments_
  std::vector<double> moments_;
  std::vector<std::vector<std::pair<double, uint32_t>>>
      met_;                       // by owner: (time at its first member, instance)
  std::vector<uint32_t> marked_;  // by owner: the causer's index in it
  std::vector<Pending> pending_;
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t>
      inherited_;  // by instance and last synchronisation point: into DelayCost::inherited
  std::vector<std::vector<Origin>> origins_;  // by Inherited
  std::vector<double> sums_;                  // by rank index, zero between uses
  std::vector<uint32_t> touched_;
  DelayCost out_;
};

}  // namespace

DelayCost CostDelays(const GraphInput& input, const Gains& gains) {
  if (gains.empty()) return {};
  return DelayCharger(input, gains).Run();
}

}  // namespace lockstep::analysis
