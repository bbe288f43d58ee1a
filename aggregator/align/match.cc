#include "aggregator/align/match.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "aggregator/align/clock_model.h"
#include "aggregator/align/sequence_align.h"
#include "aggregator/align/transfer_match.h"

namespace lockstep::align {
namespace {

using store::Collective;
using store::CollectiveOp;
using store::kNone;
using store::MatchSource;

// When more than one instance in ten of a group contradicts itself, its sequence numbers are not to be trusted and order
// decides (one framework's counter was once shared by all groups of a process).
constexpr size_t kTrustOneConflictIn = 10;

// Stamps of old traces are whole microseconds.
constexpr Nanos kRounding = Nanos::Micros(2);

bool IsPointToPoint(CollectiveOp op) { return op == CollectiveOp::kSend || op == CollectiveOp::kReceive; }

// By its name alone a kernel may be a transfer between two ranks or an exchange among all.
bool MayBeTransfer(CollectiveOp op) { return op == CollectiveOp::kSendReceive || IsPointToPoint(op); }

// Same on every member where the library demands it.
bool BytesMustAgree(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kAllGather || op == CollectiveOp::kReduceScatter ||
         op == CollectiveOp::kBroadcast || op == CollectiveOp::kReduce || IsPointToPoint(op);
}

// What two ranks' collectives must share to be one instance.
struct Key {
  uint32_t group;
  CollectiveOp op;  // kUnknown where the sequence counts all operations
  int64_t sequence;
  bool operator==(const Key&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const Key& k) {
    return H::combine(std::move(h), k.group, k.op, k.sequence);
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
    CheckCausality();
    MatchTransfers();
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

  Key KeyOf(const Collective& c) const {
    return {c.group, c.source == MatchSource::kGroupSequence ? CollectiveOp::kUnknown : c.op, c.sequence};
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
          if (IsPointToPoint(c.op) && c.peer >= 0) continue;  // counted from the window's begin: no identity
          const Key key = KeyOf(c);
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

  static bool NamesItsPeer(const Collective& c) { return IsPointToPoint(c.op) && c.peer >= 0; }

  // Without numbers: what each rank still has, per group, aligned as sequences to the rank that has most.
  void MatchByOrder() {
    for (uint32_t g = 0; g < participants_.size(); ++g) {
      std::vector<std::vector<uint32_t>> left(participants_[g].size());
      bool any = false;
      for (size_t p = 0; p < left.size(); ++p) {
        const uint32_t r = participants_[g][p];
        const auto& collectives = capture_.ranks[r].collectives;
        for (uint32_t i = 0; i < collectives.size(); ++i) {
          if (collectives[i].group != g || out_.instance_of[r][i] != kNone || NamesItsPeer(collectives[i])) continue;
          left[p].push_back(i);
          any = true;
        }
      }
      if (!any) continue;
      DropTransfersBetweenUnknowns(g, left);
      AlignGroup(g, left);
    }
  }

  // Send/receive kernels whose partners nobody names are one exchange of the whole group when every rank of the group has
  // (nearly) as many of them as the others; otherwise they are transfers between unknown pairs, which order cannot tell.
  void DropTransfersBetweenUnknowns(uint32_t g, std::vector<std::vector<uint32_t>>& left) const {
    if (ExpectedMembers(g) <= 2) return;
    size_t fewest = SIZE_MAX;
    size_t most = 0;
    for (size_t p = 0; p < left.size(); ++p) {
      const auto& collectives = capture_.ranks[participants_[g][p]].collectives;
      const auto count = static_cast<size_t>(
          std::count_if(left[p].begin(), left[p].end(), [&](uint32_t i) { return MayBeTransfer(collectives[i].op); }));
      fewest = std::min(fewest, count);
      most = std::max(most, count);
    }
    if (most - fewest <= std::max<size_t>(2, most / 20)) return;
    for (size_t p = 0; p < left.size(); ++p) {
      const auto& collectives = capture_.ranks[participants_[g][p]].collectives;
      std::erase_if(left[p], [&](uint32_t i) { return MayBeTransfer(collectives[i].op); });
    }
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
      out.push_back({Token(c), a.start, a.end, store::IsSymmetric(c.op) || c.op == CollectiveOp::kSendReceive});
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

  // Groups that order alone suggests may be wrong ones: ranks of several communicators seen as one. Then some leave a
  // "collective" before others came, and nothing of that group is believed.
  void CheckCausality() {
    std::vector<uint32_t> checked(capture_.groups.size(), 0), broken(capture_.groups.size(), 0);
    const bool any = std::any_of(out_.instances.begin(), out_.instances.end(), [](const Instance& i) { return ByOrder(i); });
    if (!any) return;
    const ClockModel clock = EstimateClocks(capture_, out_);
    for (const Instance& instance : out_.instances) {
      if (!ByOrder(instance)) continue;
      ++checked[instance.group];
      broken[instance.group] += LeftBeforeOthersCame(instance, clock) ? 1 : 0;
    }
    for (Instance& instance : out_.instances) {
      if (ByOrder(instance) && broken[instance.group] * kTrustOneConflictIn > checked[instance.group]) instance.complete = false;
    }
  }

  static bool ByOrder(const Instance& i) {
    return i.source == MatchSource::kOrder && i.complete &&
           (store::IsSymmetric(i.op) || i.op == CollectiveOp::kSendReceive);
  }

  bool LeftBeforeOthersCame(const Instance& instance, const ClockModel& clock) const {
    const auto activity = [&](const Member& m) -> const store::DeviceActivity& {
      return capture_.ranks[m.rank_index].activities[At(m).activity];
    };
    const auto bound = [&](const Member& m) { return HostOf(m) < clock.hosts().size() ? clock.hosts()[HostOf(m)].bound : Nanos::Max(); };
    const Member* latest = nullptr;
    for (const Member& m : instance.members) {
      if (latest == nullptr || clock.ToJob(HostOf(m), activity(m).start) > clock.ToJob(HostOf(*latest), activity(*latest).start)) latest = &m;
    }
    const JobTime came = clock.ToJob(HostOf(*latest), activity(*latest).start);
    return std::any_of(instance.members.begin(), instance.members.end(), [&](const Member& m) {
      const bool one_host = HostOf(m) == HostOf(*latest);
      if (!one_host && (bound(m) == Nanos::Max() || bound(*latest) == Nanos::Max())) return false;
      const Nanos allowed = kRounding + (one_host ? Nanos() : bound(m) + bound(*latest));
      return clock.ToJob(HostOf(m), activity(m).end) + allowed < came;
    });
  }

  // Sends and receives between two ranks that name each other. Needs the ranks on one clock, which the collectives matched so
  // far give.
  void MatchTransfers() {
    struct Sides {
      std::vector<Member> sends, receives;
    };
    std::map<std::tuple<uint32_t, int32_t, int32_t>, Sides> by_pair;  // group, source, destination
    for (uint32_t r = 0; r < capture_.ranks.size(); ++r) {
      const auto& collectives = capture_.ranks[r].collectives;
      for (uint32_t i = 0; i < collectives.size(); ++i) {
        const Collective& c = collectives[i];
        if (c.group >= capture_.groups.size() || !NamesItsPeer(c)) continue;
        const int32_t own = RankInGroup(c.group, r);
        if (own < 0) continue;
        const bool sends = c.op == CollectiveOp::kSend;
        Sides& sides = by_pair[{c.group, sends ? own : c.peer, sends ? c.peer : own}];
        (sends ? sides.sends : sides.receives).push_back({r, i});
      }
    }
    if (by_pair.empty()) return;
    const ClockModel clock = EstimateClocks(capture_, out_);
    for (const auto& [key, sides] : by_pair) {
      if (sides.sends.empty() || sides.receives.empty()) continue;
      const Nanos bound = clock.bound();
      const bool one_host = HostOf(sides.sends[0]) == HostOf(sides.receives[0]);
      const auto pairs = PairTransfers(SidesOnJobClock(sides.sends, clock), SidesOnJobClock(sides.receives, clock),
                                       one_host ? Nanos() : bound);
      for (const auto& [send, receive] : pairs) {
        Instance instance;
        instance.group = std::get<0>(key);
        instance.op = CollectiveOp::kSendReceive;
        instance.members = {sides.sends[send], sides.receives[receive]};
        if (instance.members[0].rank_index > instance.members[1].rank_index) std::swap(instance.members[0], instance.members[1]);
        Add(std::move(instance), At(sides.sends[send]).source);
      }
    }
  }

  uint32_t HostOf(const Member& m) const { return capture_.ranks[m.rank_index].host; }

  std::vector<TransferSide> SidesOnJobClock(const std::vector<Member>& members, const ClockModel& clock) const {
    std::vector<TransferSide> out;
    for (const Member& m : members) {
      const store::DeviceActivity& a = capture_.ranks[m.rank_index].activities[At(m).activity];
      out.push_back({clock.ToJob(HostOf(m), a.start), clock.ToJob(HostOf(m), a.end)});
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
