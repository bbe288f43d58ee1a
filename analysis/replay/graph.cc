#include "analysis/replay/graph.h"

#include <algorithm>
#include <limits>

#include "analysis/replay/contention.h"
#include "analysis/replay/hidden_barriers.h"
#include "analysis/replay/lost_members.h"
#include "analysis/replay/rank_graph.h"
#include "analysis/replay/shared_follows.h"

namespace lockstep::analysis {
namespace {

using capture::Instance;
using capture::kNone;
using capture::Member;

class Assembler {
 public:
  explicit Assembler(const GraphInput& input) : in_(input) {}

  Graph Run() {
    Reserve();
    g_.start_begin.push_back(0);
    for (uint32_t r = 0; r < in_.capture.ranks.size(); ++r) {
      ranks_.push_back(AppendRank(in_, r, g_, awaits_, follows_));
      g_.rank_begin.push_back(ranks_.back().first);
    }
    g_.rank_begin.push_back(static_cast<uint32_t>(g_.units.size()));
    ShareFollows(in_.capture, follows_, g_);
    FollowLostMembers(in_, ranks_, g_);
    FollowHiddenBarriers(in_, ranks_, g_);
    g_.barrier_of.assign(g_.units.size(), kNone);
    JoinCollectives();
    PlaceAwaits();
    MeasureLags();
    SeparateContention(in_.capture, g_);
    OrderMoments();
    return std::move(g_);
  }

 private:
  void Reserve() {
    size_t most = 0;
    g_.origin = JobTime::Max();
    for (const capture::RankData& rank : in_.capture.ranks) {
      most += rank.activities.size() + rank.api_calls.size();
      if (!rank.activities.empty())
        g_.origin = std::min(g_.origin, in_.clock.ToJob(rank.host, rank.activities.front().start));
      if (!rank.api_calls.empty())
        g_.origin = std::min(g_.origin, in_.clock.ToJob(rank.host, rank.api_calls.front().start));
    }
    if (g_.origin == JobTime::Max()) g_.origin = JobTime();
    g_.units.reserve(most);
    g_.start.reserve(most);
    g_.end.reserve(most);
    g_.start_begin.reserve(most + 1);
    g_.start_preds.reserve(2 * most);
  }

  uint32_t UnitOfMember(const Member& m) const {
    const capture::RankData& rank = in_.capture.ranks[m.rank_index];
    return ranks_[m.rank_index].first_device + rank.collectives[m.collective].activity;
  }

  // A kernel that carries several collectives cannot be the member of one barrier.
  bool OneCollectiveEach(const Instance& instance) const {
    for (const Member& m : instance.members) {
      const auto& collectives = in_.capture.ranks[m.rank_index].collectives;
      const uint32_t a = collectives[m.collective].activity;
      const bool shared_before = m.collective > 0 && collectives[m.collective - 1].activity == a;
      const bool shared_after =
          m.collective + 1 < collectives.size() && collectives[m.collective + 1].activity == a;
      if (shared_before || shared_after) return false;
    }
    return true;
  }

  double Tolerance(const Member& a, const Member& b) const {
    const Nanos bound =
        PairBound(in_.clock, in_.capture.ranks[a.rank_index].host, in_.capture.ranks[b.rank_index].host);
    if (bound == Nanos::Max()) return std::numeric_limits<double>::infinity();
    return static_cast<double>(bound.ns()) + kRoundingNs;
  }

  void JoinCollectives() {
    for (size_t n = 0; n < in_.matches.instances.size(); ++n) {
      const Instance& instance = in_.matches.instances[n];
      if (!instance.usable) continue;
      if (in_.times.instances[n].symmetric && OneCollectiveEach(instance)) {
        AddBarrier(instance);
      } else {
        AddAwaits(instance, in_.times.instances[n].rendezvous);
      }
    }
  }

  void AddBarrier(const Instance& instance) {
    // No member may end before the last one came. If one does, these records are not one collective.
    const Member* latest = &instance.members[0];
    for (const Member& m : instance.members) {
      if (g_.start[UnitOfMember(m)] > g_.start[UnitOfMember(*latest)]) latest = &m;
    }
    g_.edges += instance.members.size();
    for (const Member& m : instance.members) {
      if (g_.end[UnitOfMember(m)] + Tolerance(m, *latest) < g_.start[UnitOfMember(*latest)]) {
        g_.cut_edges += instance.members.size();
        return;
      }
    }
    const auto number = static_cast<uint32_t>(g_.barriers.size());
    g_.barriers.push_back(
        {static_cast<uint32_t>(g_.barrier_members.size()), static_cast<uint32_t>(instance.members.size())});
    for (const Member& m : instance.members) {
      g_.barrier_members.push_back(UnitOfMember(m));
      g_.barrier_of[UnitOfMember(m)] = number;
    }
  }

  void AddAwaits(const Instance& instance, bool rendezvous) {
    for (size_t to = 0; to < instance.members.size(); ++to) {
      for (size_t from = 0; from < instance.members.size(); ++from) {
        if (from == to || (!rendezvous && !Needs(in_.capture, instance, to, from).value_or(false))) continue;
        const uint32_t waiting = UnitOfMember(instance.members[to]);
        const uint32_t awaited = UnitOfMember(instance.members[from]);
        const double tolerance = Tolerance(instance.members[to], instance.members[from]);
        if (g_.end[waiting] + tolerance < g_.start[awaited]) {
          ++g_.cut_edges;
        } else {
          awaits_.push_back({StartOf(awaited), waiting});
        }
      }
    }
  }

  void PlaceAwaits() {
    std::stable_sort(awaits_.begin(), awaits_.end(),
                     [](const AwaitEdge& a, const AwaitEdge& b) { return a.unit < b.unit; });
    g_.await_begin.assign(g_.units.size() + 1, 0);
    g_.awaits.reserve(awaits_.size());
    for (const AwaitEdge& e : awaits_) {
      g_.awaits.push_back(e.from);
      ++g_.await_begin[e.unit + 1];
    }
    for (size_t u = 0; u < g_.units.size(); ++u) g_.await_begin[u + 1] += g_.await_begin[u];
    g_.edges += g_.start_preds.size() + g_.awaits.size();
  }

  double Observed(NodeRef node) const {
    return node % 2 == 0 ? g_.start[UnitOf(node)] : g_.end[UnitOf(node)];
  }

  void MeasureLags() {
    const size_t count = g_.units.size();
    g_.lag.resize(count);
    g_.work.resize(count);
    for (uint32_t u = 0; u < count; ++u) {
      double ready = 0;
      const auto preds = g_.StartPreds(u);
      g_.units[u].is_head = preds.empty();
      for (size_t i = 0; i < preds.size(); ++i)
        ready = i == 0 ? Observed(preds[i]) : std::max(ready, Observed(preds[i]));
      g_.lag[u] = g_.start[u] - ready;
      double running = g_.start[u];
      for (NodeRef p : g_.Awaits(u)) running = std::max(running, Observed(p));
      g_.work[u] = g_.end[u] - running;
    }
    for (const Barrier& j : g_.barriers) {
      double latest = g_.start[g_.barrier_members[j.first]];
      for (uint32_t m : g_.Members(j)) latest = std::max(latest, g_.start[m]);
      for (uint32_t m : g_.Members(j)) g_.work[m] = g_.end[m] - latest;
    }
  }

  // ---- topological order of starts, finishes and barriers

  // The items to order: [0, n) the start of a unit, with its end unless that waits; [n, 2n) a finish that
  // waits; [2n, ..) a barrier.
  void OrderMoments() {
    const auto n = static_cast<uint32_t>(g_.units.size());
    const auto items = 2 * n + static_cast<uint32_t>(g_.barriers.size());
    const auto producer = [&](NodeRef node) {
      const uint32_t u = UnitOf(node);
      if (node % 2 == 0) return u;
      if (g_.barrier_of[u] != kNone) return 2 * n + g_.barrier_of[u];
      return Waits(u) ? n + u : u;
    };
    std::vector<uint32_t> missing(items, 0);
    // Begins are stored two places late, because filling moves each begin to its place.
    std::vector<uint32_t> out_begin(items + 2, 0);
    const auto each_edge = [&](const auto& use) {
      for (uint32_t u = 0; u < n; ++u) {
        for (NodeRef p : g_.StartPreds(u)) use(producer(p), u);
        if (!Waits(u)) continue;
        use(u, n + u);
        for (NodeRef p : g_.Awaits(u)) use(producer(p), n + u);
      }
      for (uint32_t j = 0; j < g_.barriers.size(); ++j) {
        for (uint32_t m : g_.Members(g_.barriers[j])) use(m, 2 * n + j);
      }
    };
    each_edge([&](uint32_t from, uint32_t to) {
      ++out_begin[from + 2];
      ++missing[to];
    });
    for (uint32_t i = 2; i < items + 2; ++i) out_begin[i] += out_begin[i - 1];
    std::vector<uint32_t> out(out_begin.back());
    each_edge([&](uint32_t from, uint32_t to) { out[out_begin[from + 1]++] = to; });
    Schedule(n, missing, out_begin, out);
  }

  bool Waits(uint32_t u) const {
    return g_.barrier_of[u] == kNone && g_.await_begin[u + 1] > g_.await_begin[u];
  }

  void Schedule(uint32_t n, std::vector<uint32_t>& missing, const std::vector<uint32_t>& out_begin,
                const std::vector<uint32_t>& out) {
    g_.order.reserve(n + g_.barriers.size());
    std::vector<uint32_t> ready;
    const auto is_real = [&](uint32_t item) { return item < n || item >= 2 * n || Waits(item - n); };
    // A stack follows one stream as far as possible, which keeps a replay's memory accesses together. Seeding
    // backwards makes the first rank's first unit run first.
    for (uint32_t u = n; u > 0; --u) {
      if (missing[u - 1] == 0) ready.push_back(u - 1);
    }
    std::vector<uint8_t> done(missing.size(), 0);
    uint32_t oldest = 0;
    std::vector<uint32_t> by_start;
    while (true) {
      while (!ready.empty()) {
        const uint32_t item = ready.back();
        ready.pop_back();
        done[item] = 1;
        Emit(item, n);
        for (uint32_t i = out_begin[item]; i < out_begin[item + 1]; ++i) {
          if (--missing[out[i]] == 0 && is_real(out[i]) && !done[out[i]]) ready.push_back(out[i]);
        }
      }
      if (g_.order.size() >= Expected(n)) return;
      // Contradictory records made a cycle. The earliest start in it keeps its observed time.
      if (by_start.empty()) {
        for (uint32_t u = 0; u < n; ++u) by_start.push_back(u);
        std::stable_sort(by_start.begin(), by_start.end(),
                         [&](uint32_t a, uint32_t b) { return g_.start[a] < g_.start[b]; });
      }
      while (oldest < n && done[by_start[oldest]]) ++oldest;
      if (oldest < n) {
        CutAt(by_start[oldest]);
        ready.push_back(by_start[oldest]);
        done[by_start[oldest]] = 1;
        continue;
      }
      CutFinishes(n, missing, done, ready);
      if (ready.empty()) return;
    }
  }

  size_t Expected(uint32_t n) const {
    size_t waiting = 0;
    for (uint32_t u = 0; u < n; ++u) waiting += Waits(u) ? 1 : 0;
    return n + waiting + g_.barriers.size();
  }

  void Emit(uint32_t item, uint32_t n) {
    if (item >= 2 * n) {
      g_.order.push_back(kRunBarrier | (item - 2 * n));
    } else if (item >= n) {
      g_.order.push_back(kRunFinish | (item - n));
    } else if (g_.barrier_of[item] != kNone || Waits(item)) {
      g_.order.push_back(kRunStart | item);
    } else {
      g_.order.push_back(kRunPlain | item);
    }
  }

  // The unit starts at its observed time, independent of its predecessors.
  void CutAt(uint32_t unit) {
    ++g_.cut_edges;
    for (uint32_t i = g_.start_begin[unit]; i < g_.start_begin[unit + 1]; ++i)
      g_.start_preds[i] = StartOf(unit);
    g_.lag[unit] = g_.start[unit];
    g_.units[unit].is_head = true;
  }

  // Breaks a cycle of finishes that wait for one another: one of them ends as observed after its own start.
  void CutFinishes(uint32_t n, const std::vector<uint32_t>& missing, std::vector<uint8_t>& done,
                   std::vector<uint32_t>& ready) {
    for (uint32_t u = 0; u < n; ++u) {
      if (!Waits(u) || done[n + u] || missing[n + u] == 0) continue;
      for (uint32_t i = g_.await_begin[u]; i < g_.await_begin[u + 1]; ++i) g_.awaits[i] = StartOf(u);
      g_.work[u] = g_.end[u] - g_.start[u] - g_.contention[u];
      ++g_.cut_edges;
      done[n + u] = 1;
      ready.push_back(n + u);
      return;
    }
  }

  const GraphInput& in_;
  std::vector<RankUnits> ranks_;
  std::vector<AwaitEdge> awaits_;
  std::vector<Follow> follows_;
  Graph g_;
};

}  // namespace

Graph BuildGraph(const GraphInput& input) { return Assembler(input).Run(); }

}  // namespace lockstep::analysis
