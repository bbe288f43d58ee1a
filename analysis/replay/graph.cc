#include "analysis/replay/graph.h"

#include <algorithm>
#include <limits>

#include "analysis/replay/contention.h"
#include "analysis/replay/hidden_barriers.h"
#include "analysis/replay/lost_members.h"
#include "analysis/replay/rank_graph.h"
#include "analysis/replay/shared_follows.h"
#include "base/parallel.h"

namespace lockstep::analysis {
namespace {

using capture::Instance;
using capture::kNone;
using capture::Member;

// Members of a symmetric collective. All end `work` after the latest start.
struct Barrier {
  uint32_t first;  // into barrier_members_
  uint32_t count;
};

class Assembler {
 public:
  explicit Assembler(const GraphInput& input) : in_(input) {}

  Graph Run() {
    FindOrigin();
    JoinRanks();
    MoveToDisk(g_.start, g_.end);
    ShareFollows(in_.capture, follows_, g_);
    FollowLostMembers(in_, ranks_, g_);
    FollowHiddenBarriers(in_, ranks_, g_);
    MoveToDisk(g_.start_begin, g_.start_preds);
    barrier_of_.assign(g_.units.size(), kNone);
    JoinCollectives();
    PlaceAwaits();
    PlaceAnchors();
    MeasureLags();
    MoveToDisk(g_.anchor, g_.units);
    SeparateContention(in_.capture, g_);
    MoveToDisk(g_.lag, g_.work, g_.contention, g_.contention_share);
    OrderNodes();
    PlacePreds();
    MoveToDisk(g_.order, g_.place, g_.first_pred, g_.preds);
    return std::move(g_);
  }

 private:
  // The tables are complete, apart from a few units that a cycle of contradictions changes.
  template <typename... Tables>
  void MoveToDisk(const Tables&... complete) {
    if (in_.disk != nullptr) (in_.disk->Take(complete), ...);
  }

  void FindOrigin() {
    g_.origin = JobTime::Max();
    for (const capture::RankData& rank : in_.capture.ranks) {
      if (!rank.activities.empty())
        g_.origin = std::min(g_.origin, in_.clock.ToJob(rank.host, rank.activities.front().start));
      if (!rank.api_calls.empty())
        g_.origin = std::min(g_.origin, in_.clock.ToJob(rank.host, rank.api_calls.front().start));
    }
    if (g_.origin == JobTime::Max()) g_.origin = JobTime();
  }

  // The ranks' parts are independent until their collectives are joined.
  void JoinRanks() {
    std::vector<RankGraph> parts(in_.capture.ranks.size());
    ParallelFor(ThreadCount(in_.threads), parts.size(),
                [&](unsigned, size_t r) { parts[r] = BuildRank(in_, static_cast<uint32_t>(r), g_.origin); });
    size_t units = 0, preds = 0;
    for (const RankGraph& part : parts) {
      units += part.graph.units.size();
      preds += part.graph.start_preds.size();
    }
    g_.units.reserve(units);
    g_.start.reserve(units);
    g_.end.reserve(units);
    g_.start_begin.reserve(units + 1);
    g_.start_preds.reserve(preds);
    for (RankGraph& part : parts) {
      Append(part);
      part = {};
    }
    g_.rank_begin.push_back(static_cast<uint32_t>(g_.units.size()));
    g_.start_begin.push_back(g_.start_preds.size());
  }

  // A part counts units and predecessors from 0.
  void Append(const RankGraph& part) {
    const auto first = static_cast<uint32_t>(g_.units.size());
    const uint64_t first_pred = g_.start_preds.size();
    const auto moved = [first](NodeRef moment) { return moment + StartOf(first); };
    g_.rank_begin.push_back(first);
    ranks_.push_back({first, first + part.units.first_device, first + part.units.end});
    const Graph& graph = part.graph;
    g_.units.insert(g_.units.end(), graph.units.begin(), graph.units.end());
    g_.start.insert(g_.start.end(), graph.start.begin(), graph.start.end());
    g_.end.insert(g_.end.end(), graph.end.begin(), graph.end.end());
    for (size_t u = 0; u < graph.units.size(); ++u)
      g_.start_begin.push_back(graph.start_begin[u] + first_pred);
    for (NodeRef p : graph.start_preds) g_.start_preds.push_back(moved(p));
    for (const AwaitEdge& e : part.awaits) awaits_.push_back({moved(e.from), e.unit + first});
    for (const Follow& f : part.follows) follows_.push_back({f.from + first, f.unit + first});
    g_.cut_edges += graph.cut_edges;
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
    const auto number = static_cast<uint32_t>(barriers_.size());
    barriers_.push_back(
        {static_cast<uint32_t>(barrier_members_.size()), static_cast<uint32_t>(instance.members.size())});
    for (const Member& m : instance.members) {
      barrier_members_.push_back(UnitOfMember(m));
      barrier_of_[UnitOfMember(m)] = number;
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

  // The members of a barrier await only each other.
  void PlaceAwaits() {
    std::stable_sort(awaits_.begin(), awaits_.end(),
                     [](const AwaitEdge& a, const AwaitEdge& b) { return a.unit < b.unit; });
    g_.edges += g_.start_preds.size() + awaits_.size();
    std::erase_if(awaits_, [&](const AwaitEdge& e) { return barrier_of_[e.unit] != kNone; });
    for (size_t i = 0; i < awaits_.size(); ++i) {
      if (!waiting_.empty() && waiting_.back() == awaits_[i].unit) continue;
      waiting_.push_back(awaits_[i].unit);
      await_begin_.push_back(i);
    }
    await_begin_.push_back(awaits_.size());
  }

  void PlaceAnchors() {
    g_.barriers = static_cast<uint32_t>(barriers_.size());
    g_.anchor = std::move(barrier_of_);
    for (uint32_t u = 0; u < g_.anchor.size(); ++u)
      g_.anchor[u] = g_.anchor[u] == kNone ? u : g_.FirstBarrierNode() + g_.anchor[u];
    for (uint32_t i = 0; i < waiting_.size(); ++i) g_.anchor[waiting_[i]] = g_.FirstWaitingNode() + i;
  }

  std::span<const uint32_t> Members(const Barrier& j) const {
    return std::span(barrier_members_).subspan(j.first, j.count);
  }
  // By place in waiting_.
  std::span<const AwaitEdge> AwaitsOf(uint32_t i) const {
    return std::span(awaits_).subspan(await_begin_[i], await_begin_[i + 1] - await_begin_[i]);
  }
  uint32_t Nodes() const { return g_.FirstWaitingNode() + static_cast<uint32_t>(waiting_.size()); }

  double Observed(NodeRef node) const {
    return node % 2 == 0 ? g_.start[UnitOf(node)] : g_.end[UnitOf(node)];
  }

  void MeasureLags() {
    const size_t count = g_.units.size();
    g_.lag.resize(count);
    g_.work.resize(count);
    for (uint32_t u = 0; u < count; ++u) {
      double ready = 0;
      const auto preds = g_.KnownStartPreds(u);
      g_.units[u].is_head = preds.empty();
      for (size_t i = 0; i < preds.size(); ++i)
        ready = i == 0 ? Observed(preds[i]) : std::max(ready, Observed(preds[i]));
      g_.lag[u] = g_.start[u] - ready;
      g_.work[u] = g_.end[u] - g_.start[u];
    }
    for (uint32_t i = 0; i < waiting_.size(); ++i) {
      double running = g_.start[waiting_[i]];
      for (const AwaitEdge& e : AwaitsOf(i)) running = std::max(running, Observed(e.from));
      g_.work[waiting_[i]] = g_.end[waiting_[i]] - running;
    }
    for (const Barrier& j : barriers_) {
      double latest = g_.start[barrier_members_[j.first]];
      for (uint32_t m : Members(j)) latest = std::max(latest, g_.start[m]);
      for (uint32_t m : Members(j)) g_.work[m] = g_.end[m] - latest;
    }
  }

  // ---- topological order of the nodes

  void OrderNodes() {
    const uint32_t nodes = Nodes();
    const auto node_of = [&](NodeRef moment) {
      return moment % 2 == 0 ? UnitOf(moment) : g_.anchor[UnitOf(moment)];
    };
    std::vector<uint32_t> missing(nodes, 0);
    // Begins are stored two places late, because filling moves each begin to its place.
    std::vector<uint64_t> out_begin(size_t{nodes} + 2, 0);
    const auto each_edge = [&](const auto& use) {
      for (uint32_t u = 0; u < g_.units.size(); ++u) {
        for (NodeRef p : g_.KnownStartPreds(u)) use(node_of(p), u);
        if (g_.anchor[u] < g_.FirstWaitingNode()) continue;
        use(u, g_.anchor[u]);
        for (const AwaitEdge& e : AwaitsOf(g_.anchor[u] - g_.FirstWaitingNode()))
          use(node_of(e.from), g_.anchor[u]);
      }
      for (uint32_t j = 0; j < barriers_.size(); ++j) {
        for (uint32_t m : Members(barriers_[j])) use(m, g_.FirstBarrierNode() + j);
      }
    };
    each_edge([&](uint32_t from, uint32_t to) {
      ++out_begin[from + 2];
      ++missing[to];
    });
    for (size_t i = 2; i < out_begin.size(); ++i) out_begin[i] += out_begin[i - 1];
    std::vector<uint32_t> out(out_begin.back());
    each_edge([&](uint32_t from, uint32_t to) { out[out_begin[from + 1]++] = to; });
    Schedule(missing, out_begin, out);
  }

  void Schedule(std::vector<uint32_t>& missing, const std::vector<uint64_t>& out_begin,
                const std::vector<uint32_t>& out) {
    const auto n = static_cast<uint32_t>(g_.units.size());
    g_.order.reserve(missing.size());
    std::vector<uint32_t> ready;
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
        const uint32_t node = ready.back();
        ready.pop_back();
        done[node] = 1;
        g_.order.push_back(node);
        for (uint64_t i = out_begin[node]; i < out_begin[node + 1]; ++i) {
          if (--missing[out[i]] == 0 && !done[out[i]]) ready.push_back(out[i]);
        }
      }
      if (g_.order.size() >= missing.size()) return;
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
      CutFinishes(missing, done, ready);
      if (ready.empty()) return;
    }
  }

  // The unit starts at its observed time, independent of its predecessors.
  void CutAt(uint32_t unit) {
    ++g_.cut_edges;
    cut_.push_back(unit);
    g_.lag[unit] = g_.start[unit];
    g_.units[unit].is_head = true;
  }

  // Lists the predecessors of all nodes in their order.
  void PlacePreds() {
    std::sort(cut_.begin(), cut_.end());
    g_.place.resize(Nodes());
    g_.first_pred.reserve(g_.order.size() + 1);
    g_.first_pred.push_back(0);
    g_.preds.reserve(g_.start_preds.size() + barrier_members_.size() + waiting_.size() + awaits_.size());
    for (uint32_t i = 0; i < g_.order.size(); ++i) {
      g_.place[g_.order[i]] = i;
      AppendPreds(g_.order[i]);
      g_.first_pred.push_back(g_.preds.size());
    }
    std::vector<uint64_t>().swap(g_.start_begin);
    std::vector<NodeRef>().swap(g_.start_preds);
  }

  void AppendPreds(uint32_t node) {
    if (node < g_.FirstBarrierNode()) {
      if (std::binary_search(cut_.begin(), cut_.end(), node)) return;
      const auto preds = g_.KnownStartPreds(node);
      g_.preds.insert(g_.preds.end(), preds.begin(), preds.end());
    } else if (node < g_.FirstWaitingNode()) {
      for (uint32_t m : Members(barriers_[node - g_.FirstBarrierNode()])) g_.preds.push_back(StartOf(m));
    } else {
      const uint32_t i = node - g_.FirstWaitingNode();
      g_.preds.push_back(StartOf(waiting_[i]));
      for (const AwaitEdge& e : AwaitsOf(i)) g_.preds.push_back(e.from);
    }
  }

  // Breaks a cycle of ends that wait for one another: one of them ends as observed after its own start.
  void CutFinishes(const std::vector<uint32_t>& missing, std::vector<uint8_t>& done,
                   std::vector<uint32_t>& ready) {
    for (uint32_t i = 0; i < waiting_.size(); ++i) {
      const uint32_t node = g_.FirstWaitingNode() + i, u = waiting_[i];
      if (done[node] || missing[node] == 0) continue;
      for (uint64_t a = await_begin_[i]; a < await_begin_[i + 1]; ++a) awaits_[a].from = StartOf(u);
      g_.work[u] = g_.end[u] - g_.start[u] - g_.contention[u];
      ++g_.cut_edges;
      done[node] = 1;
      ready.push_back(node);
      return;
    }
  }

  const GraphInput& in_;
  std::vector<RankUnits> ranks_;
  std::vector<AwaitEdge> awaits_;      // sorted by unit once all are known
  std::vector<uint32_t> waiting_;      // units that await others outside of a barrier, ascending
  std::vector<uint64_t> await_begin_;  // of each of them, in awaits_; and one past the last
  std::vector<Barrier> barriers_;
  std::vector<uint32_t> barrier_members_;
  std::vector<Follow> follows_;
  std::vector<uint32_t> cut_;         // units whose predecessors contradict each other
  std::vector<uint32_t> barrier_of_;  // by unit, or capture::kNone; until the anchors are known
  Graph g_;
};

}  // namespace

Graph BuildGraph(const GraphInput& input) { return Assembler(input).Run(); }

}  // namespace lockstep::analysis
