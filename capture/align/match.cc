#include "capture/align/match.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "capture/align/clock_model.h"
#include "capture/align/group_members.h"
#include "capture/align/message_match.h"
#include "capture/align/missing_members.h"
#include "capture/align/order_match.h"

namespace lockstep::capture {
namespace {

using capture::Collective;
using capture::CollectiveOp;
using capture::GroupOrigin;
using capture::kNone;
using capture::MatchSource;

// If more than one instance in ten of a group contradicts itself, its sequence numbers are ignored and order
// decides. (In one framework, all groups of a process once shared one counter.)
constexpr size_t kTrustOneConflictIn = 10;

// Stamps of old traces are whole microseconds.
constexpr Nanos kRounding = Nanos::Micros(2);

bool IsPointToPoint(CollectiveOp op) { return op == CollectiveOp::kSend || op == CollectiveOp::kReceive; }

// By its name alone a kernel may be a transfer between two ranks or an exchange among all.
bool MayBeTransfer(CollectiveOp op) { return op == CollectiveOp::kSendReceive || IsPointToPoint(op); }

// Collectives of two ranks with equal keys are one instance.
struct Key {
  uint32_t group;
  CollectiveOp op;  // kUnknown where the sequence counts all operations
  int64_t sequence;
  uint32_t repeat;  // index among coalesced operations, which share one number of the framework
  bool operator==(const Key&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const Key& k) {
    return H::combine(std::move(h), k.group, k.op, k.sequence, k.repeat);
  }
};

class Matcher {
 public:
  explicit Matcher(const capture::Capture& capture)
      : capture_(capture), groups_(capture), order_only_(capture.groups.size(), 0) {
    out_.instance_of.resize(capture.ranks.size());
    statuses_.resize(capture.ranks.size());
    for (size_t r = 0; r < capture.ranks.size(); ++r) {
      out_.instance_of[r].assign(capture.ranks[r].collectives.size(), kNone);
      statuses_[r].assign(capture.ranks[r].collectives.size(), MatchStatus::kUnmatched);
    }
  }

  Matches Run() {
    MatchBySequence();
    MatchByOrder();
    clock_ = EstimateClocks(capture_, out_);
    CheckCausality();
    AppendMessages(capture_, groups_, clock_, out_, statuses_);
    ExplainMissingMembers(capture_, groups_, clock_, out_.instances, statuses_);
    Number();
    return std::move(out_);
  }

 private:
  const Collective& At(const Member& m) const {
    return capture_.ranks[m.rank_index].collectives[m.collective];
  }
  uint32_t HostOf(const Member& m) const { return capture_.ranks[m.rank_index].host; }
  const capture::DeviceActivity& ActivityOf(const Member& m) const {
    return capture_.ranks[m.rank_index].activities[At(m).activity];
  }

  Key KeyOf(const Collective& c) const {
    return {c.group, c.source == MatchSource::kGroupSequence ? CollectiveOp::kUnknown : c.op, c.sequence, 0};
  }

  struct Candidate {
    Instance instance;
    bool conflict = false;
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
          if (NamesItsPeer(c))
            continue;  // its number counts from the window's begin and does not identify it
          Key key = KeyOf(c);
          while (true) {
            const auto [it, fresh] = index.try_emplace(key, static_cast<uint32_t>(candidates.size()));
            if (fresh) candidates.emplace_back();
            Candidate& candidate = candidates[it->second];
            const bool repeated =
                !candidate.instance.members.empty() && candidate.instance.members.back().rank_index == r;
            if (!repeated || source == MatchSource::kNcclSequence) {
              candidate.conflict |= repeated;
              AddMember(candidate, key, {r, i});
              break;
            }
            ++key.repeat;
          }
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
    } else if (!Agree(At(instance.members.front()), c)) {
      candidate.conflict = true;
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
      bad[c.instance.group] += c.conflict ? 1 : 0;
    }
    for (size_t g = 0; g < total.size(); ++g) {
      if (bad[g] * kTrustOneConflictIn > total[g]) order_only_[g] = 1;
    }
    for (Candidate& c : candidates) {
      if (order_only_[c.instance.group]) continue;
      if (c.conflict) {
        Quarantine(c.instance);
        continue;
      }
      Add(std::move(c.instance), source);
    }
  }

  void Quarantine(const Instance& instance) {
    for (const Member& m : instance.members) {
      out_.instance_of[m.rank_index][m.collective] = kQuarantined;
      statuses_[m.rank_index][m.collective] = MatchStatus::kConflict;
    }
  }

  void Add(Instance instance, MatchSource source) {
    instance.source = source;
    const size_t expected = groups_.Expected(instance.group);
    instance.complete = instance.members.size() == expected && expected > 1;
    instance.usable =
        instance.complete ||
        (instance.members.size() > 1 && instance.members.size() + groups_.Absent(instance.group) == expected);
    const auto number = static_cast<uint32_t>(out_.instances.size());
    for (const Member& m : instance.members) out_.instance_of[m.rank_index][m.collective] = number;
    out_.instances.push_back(std::move(instance));
  }

  // Aligns the collectives without numbers as sequences, group by group.
  void MatchByOrder() {
    const bool inferred =
        std::any_of(capture_.groups.begin(), capture_.groups.end(),
                    [](const capture::Group& g) { return g.origin == GroupOrigin::kInferred; });
    for (uint32_t g = 0; g < groups_.groups(); ++g) {
      // Where communicators were inferred, collectives that fit none of them have unknown partners.
      if (inferred && capture_.groups[g].origin == GroupOrigin::kAssumed) continue;
      std::vector<Unnumbered> left;
      for (uint32_t r : groups_.Participants(g)) {
        Unnumbered of{r, {}};
        const auto& collectives = capture_.ranks[r].collectives;
        for (uint32_t i = 0; i < collectives.size(); ++i) {
          if (collectives[i].source == MatchSource::kCopyEngine) continue;
          if (collectives[i].group == g && out_.instance_of[r][i] == kNone && !NamesItsPeer(collectives[i]))
            of.collectives.push_back(i);
        }
        left.push_back(std::move(of));
      }
      DropTransfersBetweenUnknowns(g, left);
      // On one stream, operations of all kinds follow each other in the same order on every rank. On several
      // streams, only operations of one kind do.
      std::set<CollectiveOp> ops;
      for (const Unnumbered& of : left) {
        for (uint32_t i : of.collectives) ops.insert(capture_.ranks[of.rank_index].collectives[i].op);
      }
      if (OnOneStreamEach(left)) {
        MatchInOrderOf(g, std::move(left));
        continue;
      }
      if (const std::set<StreamId> streams = CommonStreams(left); !streams.empty()) {
        for (const StreamId stream : streams) MatchInOrderOf(g, OnStream(left, stream));
        continue;
      }
      for (const CollectiveOp op : ops) {
        std::vector<Unnumbered> of_op = left;
        for (Unnumbered& of : of_op) {
          const auto& collectives = capture_.ranks[of.rank_index].collectives;
          std::erase_if(of.collectives, [&](uint32_t i) { return collectives[i].op != op; });
        }
        MatchInOrderOf(g, std::move(of_op));
      }
    }
  }

  StreamId StreamOf(uint32_t r, uint32_t i) const {
    return capture_.ranks[r].activities[capture_.ranks[r].collectives[i].activity].stream;
  }

  // Streams that all ranks use. Ranks that run one program number their streams alike. Empty: they differ.
  std::set<StreamId> CommonStreams(const std::vector<Unnumbered>& left) const {
    std::set<StreamId> common;
    for (const Unnumbered& of : left) {
      std::set<StreamId> own;
      for (uint32_t i : of.collectives) own.insert(StreamOf(of.rank_index, i));
      if (own.empty()) continue;
      if (common.empty()) common = own;
      if (common != own) return {};
    }
    return common;
  }

  std::vector<Unnumbered> OnStream(std::vector<Unnumbered> left, StreamId stream) const {
    for (Unnumbered& of : left) {
      const uint32_t r = of.rank_index;
      std::erase_if(of.collectives, [&](uint32_t i) { return StreamOf(r, i) != stream; });
    }
    return left;
  }

  bool OnOneStreamEach(const std::vector<Unnumbered>& left) const {
    return std::all_of(left.begin(), left.end(), [&](const Unnumbered& of) {
      const capture::RankData& rank = capture_.ranks[of.rank_index];
      const auto stream = [&](uint32_t i) { return rank.activities[rank.collectives[i].activity].stream; };
      return std::all_of(of.collectives.begin(), of.collectives.end(),
                         [&](uint32_t i) { return stream(i) == stream(of.collectives[0]); });
    });
  }

  void MatchInOrderOf(uint32_t g, std::vector<Unnumbered> left) {
    std::erase_if(left, [](const Unnumbered& of) { return of.collectives.empty(); });
    if (left.empty()) return;
    const MatchSource source = AllFromGraphs(capture_, left) ? MatchSource::kGraph : MatchSource::kOrder;
    for (std::vector<Member>& members : MatchInOrder(capture_, left)) {
      const CollectiveOp op = At(members[0]).op;
      Add({.group = g,
           .op = IsPointToPoint(op) ? CollectiveOp::kSendReceive : op,
           .members = std::move(members)},
          source);
    }
  }

  // Send/receive kernels without named partners are one exchange of the whole group if all its ranks have
  // nearly equally many of them. Otherwise they are transfers between unknown pairs, which order cannot
  // match.
  void DropTransfersBetweenUnknowns(uint32_t g, std::vector<Unnumbered>& left) const {
    if (groups_.Expected(g) <= 2) return;
    const auto is_transfer = [&](uint32_t r, uint32_t i) {
      return MayBeTransfer(capture_.ranks[r].collectives[i].op);
    };
    size_t fewest = SIZE_MAX;
    size_t most = 0;
    for (const Unnumbered& of : left) {
      size_t count = 0;
      for (uint32_t i : of.collectives) count += is_transfer(of.rank_index, i) ? 1 : 0;
      fewest = std::min(fewest, count);
      most = std::max(most, count);
    }
    if (most - fewest <= std::max<size_t>(2, most / 20)) return;
    for (Unnumbered& of : left) {
      const uint32_t r = of.rank_index;
      std::erase_if(of.collectives, [&](uint32_t i) { return is_transfer(r, i); });
    }
  }

  // In a symmetric operation, no member leaves before the last one came. Where order or inference mixed ranks
  // of several communicators in one group, many instances break this rule, and all matches of that group are
  // discarded. A single such instance is quarantined, even if it has numbers.
  void CheckCausality() {
    std::vector<uint32_t> checked(capture_.groups.size(), 0), broken(capture_.groups.size(), 0);
    std::vector<uint8_t> breaks(out_.instances.size(), 0);
    for (size_t n = 0; n < out_.instances.size(); ++n) {
      const Instance& instance = out_.instances[n];
      if (instance.members.size() < 2 || !LeavesTogether(instance.op)) continue;
      breaks[n] = LeftBeforeOthersCame(instance) ? 1 : 0;
      ++checked[instance.group];
      broken[instance.group] += breaks[n];
    }
    bool any = false;
    for (size_t n = 0; n < out_.instances.size(); ++n) {
      Instance& instance = out_.instances[n];
      const bool many = broken[instance.group] * kTrustOneConflictIn > checked[instance.group];
      const bool numbered =
          instance.source == MatchSource::kNcclSequence || instance.source == MatchSource::kGroupSequence;
      // If many numbered instances break the rule, the clocks are wrong and not the numbers.
      const bool wrong = many ? !numbered && LeavesTogether(instance.op) : breaks[n] != 0;
      if (!wrong) continue;
      any = true;
      if (!many) Quarantine(instance);
      instance.members.clear();
    }
    if (!any) return;
    std::vector<Instance> kept;
    for (Instance& instance : out_.instances) {
      if (!instance.members.empty()) kept.push_back(std::move(instance));
    }
    out_.instances = std::move(kept);
    clock_ = EstimateClocks(capture_, out_);
  }

  bool LeftBeforeOthersCame(const Instance& instance) const {
    const auto bound = [&](const Member& m) {
      return HostOf(m) < clock_.hosts().size() ? clock_.hosts()[HostOf(m)].bound : Nanos::Max();
    };
    const Member* latest = nullptr;
    for (const Member& m : instance.members) {
      if (latest == nullptr || clock_.ToJob(HostOf(m), ActivityOf(m).start) >
                                   clock_.ToJob(HostOf(*latest), ActivityOf(*latest).start))
        latest = &m;
    }
    const JobTime came = clock_.ToJob(HostOf(*latest), ActivityOf(*latest).start);
    return std::any_of(instance.members.begin(), instance.members.end(), [&](const Member& m) {
      const bool one_host = HostOf(m) == HostOf(*latest);
      if (!one_host && (bound(m) == Nanos::Max() || bound(*latest) == Nanos::Max())) return false;
      const Nanos allowed = kRounding + (one_host ? Nanos() : bound(m) + bound(*latest));
      return clock_.ToJob(HostOf(m), ActivityOf(m).end) + allowed < came;
    });
  }

  // Sorts the instances into the order that Matches promises, and counts them.
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
      if (!instance.usable) continue;
      ++LevelOf(instance);
      out_.partial += instance.complete ? 0 : 1;
    }
    for (uint32_t r = 0; r < capture_.ranks.size(); ++r) {
      const auto& collectives = capture_.ranks[r].collectives;
      for (uint32_t i = 0; i < collectives.size(); ++i) {
        const bool alone =
            collectives[i].group < capture_.groups.size() && groups_.Expected(collectives[i].group) <= 1;
        const uint32_t n = out_.instance_of[r][i];
        if (alone || collectives[i].source == MatchSource::kCopyEngine) continue;
        const bool matched = n != kNone && out_.instances[n].usable;
        ++(matched ? out_.matched : CountOf(statuses_[r][i]));
        if (!matched && statuses_[r][i] == MatchStatus::kConflict) ++out_.conflicts;
      }
    }
  }

  uint64_t& LevelOf(const Instance& instance) {
    switch (instance.source) {
      case MatchSource::kNcclSequence:
        return out_.by_nccl_sequence;
      case MatchSource::kGroupSequence:
        return out_.by_group_sequence;
      case MatchSource::kGraph:
        return out_.by_graph;
      case MatchSource::kOrder:
      case MatchSource::kCopyEngine:
        break;
    }
    return capture_.groups[instance.group].origin == GroupOrigin::kInferred ? out_.by_inferred
                                                                            : out_.by_order;
  }

  uint64_t& CountOf(MatchStatus status) {
    switch (status) {
      case MatchStatus::kCutByWindow:
        return out_.cut_by_window;
      case MatchStatus::kPartnerLost:
        return out_.partner_lost;
      case MatchStatus::kUnmatched:
      case MatchStatus::kConflict:
        break;
    }
    return out_.unmatched;
  }

  static constexpr uint32_t kQuarantined = kNone - 1;

  const capture::Capture& capture_;
  GroupMembers groups_;
  Matches out_;
  MatchStatuses statuses_;
  ClockModel clock_;
  std::vector<uint8_t> order_only_;  // by group
};

}  // namespace

bool BytesMustAgree(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kAllGather ||
         op == CollectiveOp::kReduceScatter || op == CollectiveOp::kBroadcast ||
         op == CollectiveOp::kReduce || IsPointToPoint(op);
}

bool LeavesTogether(CollectiveOp op) {
  return capture::IsSymmetric(op) || op == CollectiveOp::kAllToAllV || op == CollectiveOp::kSendReceive;
}

Matches Match(const capture::Capture& capture) { return Matcher(capture).Run(); }

}  // namespace lockstep::capture
