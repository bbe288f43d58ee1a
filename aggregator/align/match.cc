#include "aggregator/align/match.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "aggregator/align/sequence_align.h"

namespace lockstep::align {
namespace {

using store::Collective;
using store::CollectiveOp;
using store::kNone;
using store::MatchSource;

// When more than one instance in ten of a group contradicts itself, its sequence numbers are not to be trusted and order
// decides (one framework's counter was once shared by all groups of a process).
constexpr size_t kTrustOneConflictIn = 10;

bool IsPointToPoint(CollectiveOp op) { return op == CollectiveOp::kSend || op == CollectiveOp::kReceive; }

// Same on every member where the library demands it.
bool BytesMustAgree(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kAllGather || op == CollectiveOp::kReduceScatter ||
         op == CollectiveOp::kBroadcast || op == CollectiveOp::kReduce || IsPointToPoint(op);
}

// What two ranks' collectives must share to be one instance.
struct Key {
  uint32_t group;
  CollectiveOp op;  // kSendReceive for both sides of a transfer; kUnknown where the sequence counts all operations
  int32_t source;   // rank in the group, transfers only
  int32_t destination;
  int64_t sequence;
  bool operator==(const Key&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const Key& k) {
    return H::combine(std::move(h), k.group, k.op, k.source, k.destination, k.sequence);
  }
};

class Matcher {
 public:
  explicit Matcher(const store::Capture& capture) : capture_(capture), order_only_(capture.groups.size(), 0) {
    out_.instance_of.resize(capture.ranks.size());
    for (size_t r = 0; r < capture.ranks.size(); ++r) {
      out_.instance_of[r].assign(capture.ranks[r].collectives.size(), kNone);
    }
    FindParticipants();
  }

  Matches Run() {
    MatchBySequence();
    MatchByOrder();
    Number();
    return std::move(out_);
  }

 private:
  const Collective& At(const Member& m) const { return capture_.ranks[m.rank_index].collectives[m.collective]; }

  // Entries of `ranks` that have a collective of the group, and its size where known.
  void FindParticipants() {
    participants_.resize(capture_.groups.size());
    for (uint32_t r = 0; r < capture_.ranks.size(); ++r) {
      for (const Collective& c : capture_.ranks[r].collectives) {
        if (c.group >= participants_.size()) continue;
        auto& list = participants_[c.group];
        if (list.empty() || list.back() != r) list.push_back(r);
      }
    }
  }

  size_t ExpectedMembers(uint32_t group) const {
    const store::Group& g = capture_.groups[group];
    const size_t stated = g.members.empty() ? static_cast<size_t>(std::max(0, g.size)) : g.members.size();
    return std::max(stated, participants_[group].size());
  }

  int32_t RankInGroup(uint32_t group, uint32_t rank_index) const {
    const auto& members = capture_.groups[group].members;
    const auto it = std::find(members.begin(), members.end(), capture_.ranks[rank_index].rank);
    return it == members.end() ? -1 : static_cast<int32_t>(it - members.begin());
  }

  Key KeyOf(uint32_t rank_index, const Collective& c) const {
    Key key{c.group, c.op, -1, -1, c.sequence};
    if (IsPointToPoint(c.op) && c.peer >= 0) {
      const int32_t own = RankInGroup(c.group, rank_index);
      key.op = CollectiveOp::kSendReceive;
      key.source = c.op == CollectiveOp::kSend ? own : c.peer;
      key.destination = c.op == CollectiveOp::kSend ? c.peer : own;
    } else if (c.source == MatchSource::kGroupSequence) {
      key.op = CollectiveOp::kUnknown;
    }
    return key;
  }

  struct Candidate {
    Instance instance;
    bool conflict = false;
    bool repeated = false;
  };

  void MatchBySequence() {
    for (const MatchSource source : {MatchSource::kNcclSequence, MatchSource::kGroupSequence}) {
      absl::flat_hash_map<Key, uint32_t> index;
      std::vector<Candidate> candidates;
      for (uint32_t r = 0; r < capture_.ranks.size(); ++r) {
        const auto& collectives = capture_.ranks[r].collectives;
        for (uint32_t i = 0; i < collectives.size(); ++i) {
          const Collective& c = collectives[i];
          if (c.source != source || c.sequence < 0 || c.group >= capture_.groups.size()) continue;
          const Key key = KeyOf(r, c);
          const auto [it, fresh] = index.try_emplace(key, static_cast<uint32_t>(candidates.size()));
          if (fresh) candidates.emplace_back();
          AddMember(candidates[it->second], key, {r, i});
        }
      }
      Keep(candidates, source);
    }
  }

  void AddMember(Candidate& candidate, const Key& key, Member member) {
    Instance& instance = candidate.instance;
    const Collective& c = At(member);
    if (instance.members.empty()) {
      instance.group = key.group;
      instance.op = key.op == CollectiveOp::kUnknown ? c.op : key.op;
      instance.source = c.source;
    } else {
      const Collective& first = At(instance.members.front());
      if (instance.members.back().rank_index == member.rank_index) candidate.repeated = true;
      if (!Agree(first, c)) candidate.conflict = true;
    }
    instance.members.push_back(member);
  }

  bool Agree(const Collective& a, const Collective& b) const {
    const bool transfer = IsPointToPoint(a.op) && IsPointToPoint(b.op);
    if (transfer ? a.op == b.op : a.op != b.op) return false;
    if (a.bytes >= 0 && b.bytes >= 0 && a.bytes != b.bytes && BytesMustAgree(a.op)) return false;
    return a.datatype == kNoName || b.datatype == kNoName || a.datatype == b.datatype;
  }

  void Keep(std::vector<Candidate>& candidates, MatchSource source) {
    std::vector<size_t> total(capture_.groups.size());
    std::vector<size_t> bad(capture_.groups.size());
    for (const Candidate& c : candidates) {
      ++total[c.instance.group];
      bad[c.instance.group] += c.conflict || c.repeated ? 1 : 0;
    }
    for (size_t g = 0; g < total.size(); ++g) {
      if (bad[g] * kTrustOneConflictIn > total[g]) order_only_[g] = 1;
    }
    for (Candidate& c : candidates) {
      if (order_only_[c.instance.group]) continue;
      if (c.conflict || c.repeated) {
        out_.conflicts += c.instance.members.size();
        for (const Member& m : c.instance.members) out_.instance_of[m.rank_index][m.collective] = kQuarantined;
        continue;
      }
      Add(std::move(c.instance), source);
    }
  }

  void Add(Instance instance, MatchSource source) {
    instance.source = source;
    const bool transfer = instance.op == CollectiveOp::kSendReceive && IsPointToPoint(At(instance.members[0]).op);
    const size_t expected = transfer ? 2 : ExpectedMembers(instance.group);
    instance.complete = instance.members.size() == expected && expected > 1;
    const auto number = static_cast<uint32_t>(out_.instances.size());
    for (const Member& m : instance.members) out_.instance_of[m.rank_index][m.collective] = number;
    out_.instances.push_back(std::move(instance));
  }

  // Without numbers: what each rank still has, per group, aligned as sequences to the rank that has most.
  void MatchByOrder() {
    for (uint32_t g = 0; g < participants_.size(); ++g) {
      std::vector<std::vector<uint32_t>> left(participants_[g].size());
      std::vector<std::vector<uint32_t>> transfers(participants_[g].size());
      bool any = false;
      for (size_t p = 0; p < left.size(); ++p) {
        const uint32_t r = participants_[g][p];
        const auto& collectives = capture_.ranks[r].collectives;
        for (uint32_t i = 0; i < collectives.size(); ++i) {
          if (collectives[i].group != g || out_.instance_of[r][i] != kNone) continue;
          const bool transfer = IsPointToPoint(collectives[i].op) && collectives[i].peer >= 0;
          (transfer ? transfers : left)[p].push_back(i);
          any = true;
        }
      }
      if (!any) continue;
      if (MayAlign(g, left)) AlignGroup(g, left);
      PairTransfers(g, transfers);
    }
  }

  // Send/receive kernels whose partners nobody names are one exchange of the whole group when every rank of the group has
  // (nearly) as many of them as the others; otherwise they are transfers between unknown pairs, which order cannot tell.
  bool MayAlign(uint32_t g, std::vector<std::vector<uint32_t>>& left) {
    if (ExpectedMembers(g) <= 2) return true;
    size_t fewest = SIZE_MAX;
    size_t most = 0;
    for (size_t p = 0; p < left.size(); ++p) {
      const auto& collectives = capture_.ranks[participants_[g][p]].collectives;
      const auto count = static_cast<size_t>(std::count_if(left[p].begin(), left[p].end(), [&](uint32_t i) {
        return collectives[i].op == CollectiveOp::kSendReceive || IsPointToPoint(collectives[i].op);
      }));
      fewest = std::min(fewest, count);
      most = std::max(most, count);
    }
    if (most - fewest <= std::max<size_t>(2, most / 20)) return true;
    for (size_t p = 0; p < left.size(); ++p) {
      const auto& collectives = capture_.ranks[participants_[g][p]].collectives;
      std::erase_if(left[p], [&](uint32_t i) {
        return collectives[i].op == CollectiveOp::kSendReceive || IsPointToPoint(collectives[i].op);
      });
    }
    return true;
  }

  uint64_t Token(const Collective& c) const {
    const CollectiveOp op = IsPointToPoint(c.op) ? CollectiveOp::kSendReceive : c.op;
    const uint64_t bytes = c.bytes >= 0 && BytesMustAgree(c.op) ? static_cast<uint64_t>(c.bytes) + 1 : 0;
    return bytes * 64 + static_cast<uint64_t>(op);
  }

  std::vector<SequenceElement> Sequence(uint32_t rank_index, const std::vector<uint32_t>& which) const {
    const store::RankData& rank = capture_.ranks[rank_index];
    std::vector<SequenceElement> out;
    out.reserve(which.size());
    for (uint32_t i : which) {
      const Collective& c = rank.collectives[i];
      const store::DeviceActivity& a = rank.activities[c.activity];
      out.push_back({Token(c), a.start, a.end});
    }
    return out;
  }

  void AlignGroup(uint32_t g, const std::vector<std::vector<uint32_t>>& left) {
    size_t longest = 0;
    for (size_t p = 1; p < left.size(); ++p) {
      if (left[p].size() > left[longest].size()) longest = p;
    }
    const auto reference = Sequence(participants_[g][longest], left[longest]);
    std::vector<Instance> instances(reference.size());
    for (size_t p = 0; p < left.size(); ++p) {
      const uint32_t r = participants_[g][p];
      const auto pairs = AlignSequences(reference, Sequence(r, left[p]));
      for (size_t j = 0; j < pairs.size(); ++j) {
        if (pairs[j] != kUnpaired) instances[static_cast<size_t>(pairs[j])].members.push_back({r, left[p][j]});
      }
    }
    for (Instance& instance : instances) {
      if (instance.members.empty()) continue;
      instance.group = g;
      const CollectiveOp op = At(instance.members[0]).op;
      instance.op = IsPointToPoint(op) ? CollectiveOp::kSendReceive : op;
      Add(std::move(instance), MatchSource::kOrder);
    }
  }

  // The n-th send from a to b is the n-th receive of b from a.
  void PairTransfers(uint32_t g, const std::vector<std::vector<uint32_t>>& transfers) {
    absl::flat_hash_map<std::pair<int32_t, int32_t>, std::array<std::vector<Member>, 2>> by_pair;
    std::vector<std::pair<int32_t, int32_t>> order;
    for (size_t p = 0; p < transfers.size(); ++p) {
      const uint32_t r = participants_[g][p];
      for (uint32_t i : transfers[p]) {
        const Collective& c = capture_.ranks[r].collectives[i];
        const Key key = KeyOf(r, c);
        const auto [it, fresh] = by_pair.try_emplace({key.source, key.destination});
        if (fresh) order.push_back(it->first);
        it->second[c.op == CollectiveOp::kSend ? 0 : 1].push_back({r, i});
      }
    }
    for (const auto& pair : order) {
      const auto& [sends, receives] = by_pair[pair];
      if (sends.empty() || receives.empty()) continue;
      const bool sends_longer = sends.size() >= receives.size();
      const auto& longer = sends_longer ? sends : receives;
      const auto& shorter = sends_longer ? receives : sends;
      const auto pairs = AlignSequences(SequenceOf(longer), SequenceOf(shorter));
      for (size_t j = 0; j < pairs.size(); ++j) {
        if (pairs[j] == kUnpaired) continue;
        Instance instance;
        instance.group = g;
        instance.op = CollectiveOp::kSendReceive;
        instance.members = {longer[static_cast<size_t>(pairs[j])], shorter[j]};
        std::sort(instance.members.begin(), instance.members.end(),
                  [](const Member& a, const Member& b) { return a.rank_index < b.rank_index; });
        Add(std::move(instance), MatchSource::kOrder);
      }
    }
  }

  std::vector<SequenceElement> SequenceOf(const std::vector<Member>& members) const {
    std::vector<SequenceElement> out;
    for (const Member& m : members) {
      const Collective& c = At(m);
      const store::DeviceActivity& a = capture_.ranks[m.rank_index].activities[c.activity];
      out.push_back({Token(c), a.start, a.end});
    }
    return out;
  }

  // Puts instances in their promised order and counts.
  void Number() {
    const auto place = [](const Instance& i) {
      return std::pair(i.members.front().rank_index, i.members.front().collective);
    };
    std::sort(out_.instances.begin(), out_.instances.end(),
              [&](const Instance& a, const Instance& b) { return place(a) < place(b); });
    for (auto& of_rank : out_.instance_of) std::fill(of_rank.begin(), of_rank.end(), kNone);
    for (uint32_t n = 0; n < out_.instances.size(); ++n) {
      const Instance& instance = out_.instances[n];
      for (const Member& m : instance.members) out_.instance_of[m.rank_index][m.collective] = n;
      if (!instance.complete) continue;
      switch (instance.source) {
        case MatchSource::kNcclSequence: ++out_.by_nccl_sequence; break;
        case MatchSource::kGroupSequence: ++out_.by_group_sequence; break;
        case MatchSource::kOrder: ++out_.by_order; break;
      }
    }
    for (uint32_t r = 0; r < capture_.ranks.size(); ++r) {
      const auto& collectives = capture_.ranks[r].collectives;
      for (uint32_t i = 0; i < collectives.size(); ++i) {
        const bool alone = collectives[i].group < capture_.groups.size() && ExpectedMembers(collectives[i].group) <= 1;
        const uint32_t n = out_.instance_of[r][i];
        if (!alone && (n == kNone || !out_.instances[n].complete)) ++out_.unmatched;
      }
    }
  }

  static constexpr uint32_t kQuarantined = kNone - 1;

  const store::Capture& capture_;
  Matches out_;
  std::vector<std::vector<uint32_t>> participants_;  // by group
  std::vector<uint8_t> order_only_;                  // by group
};

}  // namespace

Matches Match(const store::Capture& capture) { return Matcher(capture).Run(); }

}  // namespace lockstep::align
