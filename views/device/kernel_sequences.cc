#include "views/device/kernel_sequences.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "views/host/host_tree.h"

namespace lockstep::views {
namespace {

using capture::kNone;

struct Piece {
  uint32_t node;
  HostTime start;
  NameId name;
  bool operator<(const Piece& other) const {
    return std::tie(node, start) < std::tie(other.node, other.start);
  }
};

// Returns, by node, the end of the nodes inside it. A node comes before the nodes inside it, so these follow
// it directly.
std::vector<uint32_t> EndsOf(const HostTree& tree) {
  std::vector<uint32_t> ends(tree.nodes.size());
  for (uint32_t i = static_cast<uint32_t>(ends.size()); i-- > 0;) {
    ends[i] = std::max(ends[i], i + 1);
    const uint32_t parent = tree.nodes[i].parent;
    if (parent != kNone) ends[parent] = std::max(ends[parent], ends[i]);
  }
  return ends;
}

std::vector<Piece> PiecesOf(const capture::Capture& capture, const HostTree& tree) {
  std::vector<Piece> pieces;
  for (const Launch& launch : tree.launches) {
    if (launch.node == kNone) continue;
    const capture::DeviceActivity& a =
        capture.ranks[launch.activity.entry].activities[launch.activity.activity];
    pieces.push_back({launch.node, a.start, a.name});
  }
  std::stable_sort(pieces.begin(), pieces.end());
  return pieces;
}

class SequenceTable {
 public:
  SequenceTable(const capture::Capture& capture, LaunchRanks ranks) : capture_(capture), ranks_(ranks) {}

  void Add(const Process& process) {
    const HostTree tree = BuildHostTree(capture_, process, kOperatorsAndAnnotations);
    const std::vector<uint32_t> ends = EndsOf(tree);
    const std::vector<Piece> pieces = PiecesOf(capture_, tree);
    const auto first_of = [&](uint32_t node) {
      return std::lower_bound(pieces.begin(), pieces.end(), node,
                              [](const Piece& p, uint32_t n) { return p.node < n; });
    };
    std::vector<Piece> own;
    for (uint32_t i = 0; i < tree.nodes.size(); ++i) {
      const auto from = first_of(i), to = first_of(ends[i]);
      const auto count = static_cast<size_t>(to - from);
      if (count < kLeastSequence) continue;
      if (count > kLongestSequence) {
        ++out_.longer;
        continue;
      }
      own.assign(from, to);
      std::stable_sort(own.begin(), own.end(),
                       [](const Piece& a, const Piece& b) { return a.start < b.start; });
      Add(process, tree.nodes[i], own);
    }
  }

  KernelSequences Take() {
    std::stable_sort(
        out_.rows.begin(), out_.rows.end(), [](const KernelSequence& a, const KernelSequence& b) {
          return std::tie(b.calls, b.device, a.op, a.rank) < std::tie(a.calls, a.device, b.op, b.rank);
        });
    return std::move(out_);
  }

 private:
  struct Key {
    RankId rank;
    NameId op;
    std::vector<NameId> work;
    bool operator==(const Key&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& k) {
      return H::combine(std::move(h), k.rank, k.op, k.work);
    }
  };

  void Add(const Process& process, const HostNode& node, const std::vector<Piece>& own) {
    Key key{.rank = ranks_ == LaunchRanks::kEach ? process.rank : kNoRank,
            .op = process.frames->frames[node.frame].name};
    for (const Piece& piece : own) key.work.push_back(piece.name);
    const auto [it, fresh] = places_.try_emplace(key, out_.rows.size());
    if (fresh)
      out_.rows.push_back({.rank = key.rank, .op = capture_.Text(key.op), .work = std::move(key.work)});
    KernelSequence& row = out_.rows[it->second];
    ++row.calls;
    row.host += node.host;
    row.device += node.device;
  }

  const capture::Capture& capture_;
  const LaunchRanks ranks_;
  KernelSequences out_;
  absl::flat_hash_map<Key, size_t> places_;
};

}  // namespace

KernelSequences KernelSequencesOf(const capture::Capture& capture, LaunchRanks ranks) {
  SequenceTable table(capture, ranks);
  for (const Process& process : ProcessesOf(capture)) {
    if (process.frames != nullptr) table.Add(process);
  }
  return table.Take();
}

}  // namespace lockstep::views
