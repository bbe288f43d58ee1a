#include "capture/infer/infer_groups.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/fnv.h"
#include "base/split_mix.h"
#include "capture/infer/communicator_inference.h"

namespace lockstep::capture {
namespace {

using capture::Collective;
using capture::CollectiveOp;
using capture::GroupOrigin;
using capture::MatchSource;
using capture::RankData;

constexpr size_t kMembersNamed = 8;
// If the nearest channel outside lies less than this many times further apart, it may be a member.
constexpr double kClearMargin = 2;

// "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)" without the part that the
// compiler added.
std::string_view BareName(std::string_view name) { return name.substr(0, name.find_first_of("(<")); }

bool IsMessage(CollectiveOp op) {
  return op == CollectiveOp::kSendReceive || op == CollectiveOp::kSend || op == CollectiveOp::kReceive;
}

class GroupInference {
 public:
  explicit GroupInference(capture::Capture& capture) : capture_(capture) {}

  void Run() {
    for (RankData& rank : capture_.ranks) AdoptFromStream(rank);
    std::vector<NamelessRank> nameless = Nameless();
    size_t ranks_with_some = 0;
    for (const auto& r : nameless) ranks_with_some += r.kernels.empty() ? 0 : 1;
    if (ranks_with_some < 2) return;
    const InferredCommunicators inferred = InferCommunicators(nameless);
    for (const InferredCommunicator& c : inferred.communicators) Add(c);
    AddMissingRanks();
    for (const InferredMessages& m : inferred.messages) Add(m);
    AddNote(inferred);
  }

 private:
  bool Nameless(const Collective& c) const {
    return c.group < capture_.groups.size() && capture_.groups[c.group].origin == GroupOrigin::kAssumed;
  }

  // ---- kernels on streams that have named kernels

  struct Described {
    std::optional<Collective> one;  // the values that all described kernels share
    bool ambiguous = false;
    void Add(const Collective& c) {
      if (!one) one = c;
      ambiguous |= one->group != c.group;
      if (one->op != c.op || one->peer != c.peer) one->op = CollectiveOp::kUnknown;
    }
  };

  void AdoptFromStream(RankData& rank) {
    using Place = std::pair<uint32_t, NameId>;  // stream and kernel
    std::map<Place, Described> described;
    bool any_nameless = false;
    const auto place = [&](const Collective& c) {
      return Place(rank.activities[c.activity].stream.value(), rank.activities[c.activity].name);
    };
    for (const Collective& c : rank.collectives) {
      if (c.activity >= rank.activities.size()) continue;
      if (Nameless(c)) {
        any_nameless = true;
      } else {
        described[place(c)].Add(c);
      }
    }
    if (!any_nameless || described.empty()) return;
    for (Collective& c : rank.collectives) {
      if (c.activity >= rank.activities.size() || !Nameless(c)) continue;
      const auto it = described.find(place(c));
      if (it == described.end() || it->second.ambiguous) continue;
      const Collective& like = *it->second.one;
      if (like.op == CollectiveOp::kUnknown) {
        // The communicator is certain but the partner is not, because messages of several ranks share the
        // stream.
        if (!IsMessage(c.op)) c.group = like.group;
        continue;
      }
      c.group = like.group;
      c.op = like.op;
      c.peer = like.peer;
    }
    NumberGaps(rank);
  }

  // Numbers the kernels between two numbered kernels of one communicator and operation, if exactly as many
  // numbers are free as kernels lack one.
  static void NumberGaps(RankData& rank) {
    struct Run {
      int64_t last = -1;
      std::vector<Collective*> open;
    };
    absl::flat_hash_map<std::pair<uint32_t, CollectiveOp>, Run> runs;
    for (Collective& c : rank.collectives) {
      if (IsMessage(c.op)) continue;
      Run& run = runs[{c.group, c.op}];
      if (c.source != MatchSource::kNcclSequence || c.sequence < 0) {
        if (c.source == MatchSource::kOrder && run.last >= 0) run.open.push_back(&c);
        continue;
      }
      if (run.last >= 0 && c.sequence - run.last - 1 == static_cast<int64_t>(run.open.size())) {
        for (Collective* missing : run.open) {
          missing->source = MatchSource::kNcclSequence;
          missing->sequence = ++run.last;
        }
      }
      run.open.clear();
      run.last = c.sequence;
    }
  }

  // ---- inference

  std::vector<NamelessRank> Nameless() {
    std::vector<NamelessRank> out(capture_.ranks.size());
    places_.resize(capture_.ranks.size());
    absl::flat_hash_map<NameId, uint64_t> signatures;
    for (size_t r = 0; r < capture_.ranks.size(); ++r) {
      const RankData& rank = capture_.ranks[r];
      // A rank of an unknown host has a clock of its own.
      out[r].host =
          rank.host < capture_.hosts.size() ? rank.host : static_cast<uint32_t>(capture_.hosts.size() + r);
      for (uint32_t i = 0; i < rank.collectives.size(); ++i) {
        const Collective& c = rank.collectives[i];
        if (!Nameless(c) || c.activity >= rank.activities.size()) continue;
        const capture::DeviceActivity& a = rank.activities[c.activity];
        const auto [it, fresh] = signatures.try_emplace(a.name, 0);
        // The same hash in every run, so that a capture always gives the same groups in the same order.
        if (fresh) it->second = Fnv1a(BareName(capture_.Text(a.name)));
        const bool message = IsMessage(c.op);
        uint64_t signature = HashCombine(it->second, static_cast<uint64_t>(c.op));
        // Each side of a message chooses its own number of channels.
        if (!message && a.detail < rank.kernel_details.size())
          signature = HashCombine(signature, rank.kernel_details[a.detail].grid[0]);
        out[r].kernels.push_back({a.start, a.end, a.stream.value(), signature, message});
        places_[r].push_back(i);
      }
    }
    return out;
  }

  uint32_t NewGroup(const std::vector<uint32_t>& ranks) {
    capture::Group group;
    for (uint32_t r : ranks) group.members.push_back(capture_.ranks[r].rank);
    group.key = absl::StrFormat("inferred:%d", capture_.groups.size());
    group.name = NameOf(group.members);
    group.size = static_cast<int32_t>(ranks.size());
    group.origin = GroupOrigin::kInferred;
    capture_.groups.push_back(std::move(group));
    return static_cast<uint32_t>(capture_.groups.size() - 1);
  }

  Collective& At(uint32_t rank, uint32_t kernel) {
    return capture_.ranks[rank].collectives[places_[rank][kernel]];
  }

  void Add(const InferredCommunicator& c) {
    const uint32_t group = NewGroup(c.ranks);
    capture_.groups[group].uncertain = c.margin > 0 && c.margin < kClearMargin;
    for (size_t m = 0; m < c.ranks.size(); ++m) {
      for (uint32_t k : c.kernels[m]) At(c.ranks[m], k).group = group;
    }
  }

  // Adds ranks without records to inferred groups in two cases. The group contains all recorded ranks, or the
  // missing ranks complete it to the shape of another group, shifted.
  void AddMissingRanks() {
    const std::set<RankId> missing(capture_.missing_ranks.begin(), capture_.missing_ranks.end());
    if (missing.empty()) return;
    const size_t recorded = static_cast<size_t>(capture_.world_size) -
                            std::min(missing.size(), static_cast<size_t>(capture_.world_size));
    std::vector<std::vector<RankId>> shapes;
    for (const capture::Group& g : capture_.groups) {
      if (g.origin == GroupOrigin::kInferred) shapes.push_back(g.members);
    }
    for (capture::Group& g : capture_.groups) {
      if (g.origin != GroupOrigin::kInferred) continue;
      std::vector<RankId> members = g.members;
      if (members.size() == recorded) {
        members.insert(members.end(), missing.begin(), missing.end());
        std::sort(members.begin(), members.end());
      } else {
        for (const auto& shape : shapes) {
          if (shape.size() > members.size() && Completed(g.members, shape, missing, members)) break;
        }
      }
      if (members.size() == g.members.size()) continue;
      g.members = std::move(members);
      g.size = static_cast<int32_t>(g.members.size());
      g.name = NameOf(g.members);
    }
  }

  // Shifts `shape` so that it holds all of `members` and otherwise only missing ranks. False: no shift does.
  static bool Completed(const std::vector<RankId>& members, const std::vector<RankId>& shape,
                        const std::set<RankId>& missing, std::vector<RankId>& out) {
    for (const RankId anchor : shape) {
      const int32_t shift = members.front().value() - anchor.value();
      std::vector<RankId> moved;
      for (const RankId r : shape) moved.push_back(RankId(r.value() + shift));
      const bool fits = std::includes(moved.begin(), moved.end(), members.begin(), members.end()) &&
                        std::all_of(moved.begin(), moved.end(), [&](RankId r) {
                          return missing.contains(r) || std::binary_search(members.begin(), members.end(), r);
                        });
      if (!fits) continue;
      out = std::move(moved);
      return true;
    }
    return false;
  }

  std::string NameOf(const std::vector<RankId>& members) const {
    if (static_cast<int32_t>(members.size()) == capture_.world_size) return "world";
    std::string name = "ranks ";
    for (size_t i = 0; i < std::min(members.size(), kMembersNamed); ++i)
      absl::StrAppend(&name, i > 0 ? "," : "", members[i].value());
    if (members.size() > kMembersNamed) name += absl::StrFormat(",... (%d)", members.size());
    return name;
  }

  // Both directions between two ranks are one group.
  void Add(const InferredMessages& m) {
    const uint32_t low = std::min(m.sender, m.receiver), high = std::max(m.sender, m.receiver);
    const auto [it, fresh] = pairs_.try_emplace({low, high}, 0);
    if (fresh) it->second = NewGroup({low, high});
    for (const auto& [rank, kernels, op] : {std::tuple(m.sender, &m.sends, CollectiveOp::kSend),
                                            std::tuple(m.receiver, &m.receives, CollectiveOp::kReceive)}) {
      for (uint32_t k : *kernels) {
        Collective& c = At(rank, k);
        c.group = it->second;
        c.op = op;
        c.peer = rank == low ? 1 : 0;
      }
    }
  }

  void AddNote(const InferredCommunicators& inferred) {
    size_t unclear = 0;
    double least = INFINITY;
    for (const InferredCommunicator& c : inferred.communicators) {
      if (c.margin <= 0) continue;
      least = std::min(least, c.margin);
      unclear += c.margin < kClearMargin ? 1 : 0;
    }
    if (inferred.communicators.empty() && pairs_.empty()) return;
    const size_t found = inferred.communicators.size() + pairs_.size();
    // One communicator of all ranks is the usual assumption and needs no note.
    if (found == 1 && pairs_.empty() && inferred.communicators[0].ranks.size() == capture_.ranks.size())
      return;
    std::string note = absl::StrFormat(
        "the records do not name communicators: %d %s inferred from kernels that end together", found,
        found == 1 ? "was" : "were");
    if (std::isfinite(least)) note += absl::StrFormat("; the next best grouping fits %.3gx worse", least);
    if (unclear > 0)
      note += absl::StrFormat("; %d of them are uncertain, and their links are not judged", unclear);
    capture_.notes.push_back(std::move(note));
  }

  capture::Capture& capture_;
  std::vector<std::vector<uint32_t>> places_;  // index of each nameless kernel in its rank's collectives
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> pairs_;
};

}  // namespace

void InferGroups(capture::Capture& capture) { GroupInference(capture).Run(); }

}  // namespace lockstep::capture
