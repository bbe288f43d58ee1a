#include "capture/align/order_match.h"

#include <algorithm>
#include <map>
#include <utility>

#include "capture/align/sequence_align.h"

namespace lockstep::capture {
namespace {

using capture::Collective;
using capture::CollectiveOp;

const capture::KernelDetail* DetailOf(const capture::RankData& rank, const Collective& c) {
  const capture::DeviceActivity& a = rank.activities[c.activity];
  return a.detail < rank.kernel_details.size() ? &rank.kernel_details[a.detail] : nullptr;
}

// The index of a kernel's node among those of its graph, from 1. Node ids differ between processes; their
// order does not.
class NodeOrder {
 public:
  NodeOrder(const capture::RankData& rank, const std::vector<uint32_t>& collectives) {
    std::map<uint32_t, uint64_t> nodes_of_graph;
    for (uint32_t i : collectives) {
      const capture::KernelDetail* d = DetailOf(rank, rank.collectives[i]);
      if (d == nullptr || d->graph_node == 0) continue;
      const auto [it, fresh] = place_.try_emplace({d->graph, d->graph_node}, nodes_of_graph[d->graph] + 1);
      if (fresh) ++nodes_of_graph[d->graph];
    }
  }
  // 0: not a kernel of a graph.
  uint64_t Of(const capture::RankData& rank, const Collective& c) const {
    const capture::KernelDetail* d = DetailOf(rank, c);
    if (d == nullptr || d->graph_node == 0) return 0;
    const auto it = place_.find({d->graph, d->graph_node});
    return it == place_.end() ? 0 : it->second;
  }

 private:
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> place_;
};

uint64_t SignatureOf(const Collective& c) {
  const bool transfer = c.op == CollectiveOp::kSend || c.op == CollectiveOp::kReceive;
  const CollectiveOp op = transfer ? CollectiveOp::kSendReceive : c.op;
  const uint64_t bytes = c.bytes >= 0 && BytesMustAgree(c.op) ? static_cast<uint64_t>(c.bytes) + 1 : 0;
  return bytes * 64 + static_cast<uint64_t>(op);
}

struct Element {
  SequenceElement element;
  std::vector<Member> members;
};

std::vector<Element> ElementsOf(const capture::Capture& capture, const Unnumbered& of) {
  const capture::RankData& rank = capture.ranks[of.rank_index];
  std::vector<Element> out;
  out.reserve(of.collectives.size());
  for (uint32_t i : of.collectives) {
    const Collective& c = rank.collectives[i];
    const capture::DeviceActivity& a = rank.activities[c.activity];
    const bool together = LeavesTogether(c.op);
    out.push_back({{SignatureOf(c), a.start, a.end, together}, {{of.rank_index, i}}});
  }
  return out;
}

std::vector<SequenceElement> Bare(const std::vector<Element>& elements) {
  std::vector<SequenceElement> out;
  out.reserve(elements.size());
  for (const Element& e : elements) out.push_back(e.element);
  return out;
}

// Merges `other` into `merged`. Pairs join. The rest is inserted between its neighbours by its end on the
// merged sequence's clock.
void Merge(std::vector<Element>& merged, std::vector<Element> other, Nanos clocks_apart) {
  const std::vector<int32_t> pairs = AlignSequences(Bare(merged), Bare(other), clocks_apart);
  std::vector<Element> out;
  out.reserve(merged.size() + other.size());
  Nanos ahead;  // lead of the merged sequence's clock, from the nearest pair
  for (size_t j = 0; j < pairs.size(); ++j) {
    if (pairs[j] == kUnpaired) continue;
    ahead = merged[static_cast<size_t>(pairs[j])].element.end - other[j].element.end;
    break;
  }
  size_t i = 0;
  const auto take_before = [&](HostTime end, size_t limit) {
    while (i < limit && merged[i].element.end < end) out.push_back(std::move(merged[i++]));
  };
  for (size_t j = 0; j < pairs.size(); ++j) {
    if (pairs[j] == kUnpaired) {
      Element& e = other[j];
      e.element.start += ahead;
      e.element.end += ahead;
      size_t limit = merged.size();
      for (size_t k = j + 1; k < pairs.size(); ++k) {
        if (pairs[k] == kUnpaired) continue;
        limit = static_cast<size_t>(pairs[k]);
        break;
      }
      take_before(e.element.end, limit);
      out.push_back(std::move(e));
      continue;
    }
    const auto to = static_cast<size_t>(pairs[j]);
    while (i < to) out.push_back(std::move(merged[i++]));
    ahead = merged[to].element.end - other[j].element.end;
    merged[to].members.push_back(other[j].members[0]);
    out.push_back(std::move(merged[i++]));
  }
  while (i < merged.size()) out.push_back(std::move(merged[i++]));
  merged = std::move(out);
}

// The k-th communication node of a graph is the same collective on every rank, so nodes of different places
// never pair.
void MarkNodes(const capture::Capture& capture, const Unnumbered& of, std::vector<Element>& elements) {
  const capture::RankData& rank = capture.ranks[of.rank_index];
  const NodeOrder nodes(rank, of.collectives);
  for (Element& e : elements) {
    const uint64_t place = nodes.Of(rank, rank.collectives[e.members[0].collective]);
    if (place != 0) e.element.signature ^= place * 0x9E3779B97F4A7C15ull;
  }
}

}  // namespace

bool AllFromGraphs(const capture::Capture& capture, std::span<const Unnumbered> ranks) {
  bool any = false;
  for (const Unnumbered& of : ranks) {
    for (uint32_t i : of.collectives) {
      const capture::KernelDetail* d =
          DetailOf(capture.ranks[of.rank_index], capture.ranks[of.rank_index].collectives[i]);
      if (d == nullptr || d->graph_node == 0) return false;
      any = true;
    }
  }
  return any;
}

std::vector<std::vector<Member>> MatchInOrder(const capture::Capture& capture,
                                              std::span<const Unnumbered> ranks) {
  size_t longest = 0;
  for (size_t p = 1; p < ranks.size(); ++p) {
    if (ranks[p].collectives.size() > ranks[longest].collectives.size()) longest = p;
  }
  const bool graphs = AllFromGraphs(capture, ranks);
  std::vector<Element> merged;
  for (size_t turn = 0; turn < ranks.size(); ++turn) {
    // The longest sequence comes first, then the others in order.
    const size_t p = turn == 0 ? longest : turn <= longest ? turn - 1 : turn;
    std::vector<Element> elements = ElementsOf(capture, ranks[p]);
    if (graphs) MarkNodes(capture, ranks[p], elements);
    if (turn == 0) {
      merged = std::move(elements);
      continue;
    }
    const bool one_host =
        capture.ranks[ranks[p].rank_index].host == capture.ranks[ranks[longest].rank_index].host;
    Merge(merged, std::move(elements), one_host ? Nanos() : Nanos::Max());
  }
  std::vector<std::vector<Member>> out;
  out.reserve(merged.size());
  for (Element& e : merged) {
    std::sort(e.members.begin(), e.members.end(),
              [](const Member& a, const Member& b) { return a.rank_index < b.rank_index; });
    out.push_back(std::move(e.members));
  }
  return out;
}

}  // namespace lockstep::capture
