#include "analysis/prepare/collectives.h"

#include <algorithm>
#include <deque>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "analysis/prepare/grouped_messages.h"
#include "analysis/prepare/member_rows.h"
#include "analysis/prepare/stats.h"

namespace lockstep::analysis {
namespace {

using capture::CollectiveOp;
using capture::Instance;
using capture::kNone;
using capture::Member;

// Exit skew of healthy hardware. A larger difference between the two measures of a wait is reported. Over
// slow links, ends of large operations lie up to a tenth of their length apart.
constexpr Nanos kExitSkew = Nanos::Micros(50);
constexpr int64_t kExitSkewPart = 10;
// A sender waits for its receiver if at least this many votes, and this share of all votes, say so.
constexpr uint32_t kLeastVotes = 3;
constexpr double kMajority = 0.8;
constexpr int64_t kClearlyLonger = 3;
// Ranks of one host share a clock, so this many pairs of them suffice to measure the exit skew.
constexpr size_t kLeastMeasured = 50;

// The reference of a transfer is the least of the last kReferenceInstances instances of its kind, without the
// lowest one in kTrimmedOneIn.
constexpr size_t kReferenceInstances = 16;
constexpr size_t kTrimmedOneIn = 10;

bool Rooted(CollectiveOp op) {
  return op == CollectiveOp::kBroadcast || op == CollectiveOp::kReduce || op == CollectiveOp::kGather ||
         op == CollectiveOp::kScatter;
}

// Returns the root's rank in the group, or -1 if unknown.
int32_t StatedRoot(const capture::Capture& capture, const Instance& instance) {
  for (const Member& m : instance.members) {
    if (At(capture, m).root >= 0) return At(capture, m).root;
  }
  return -1;
}

int32_t RankInGroup(const capture::Capture& capture, const Instance& instance, const Member& m) {
  const auto& members = capture.groups[instance.group].members;
  const auto it = std::find(members.begin(), members.end(), RankOf(capture, m).rank);
  return it == members.end() ? -1 : static_cast<int32_t>(it - members.begin());
}

// True if every member needs every other. The duration alone then shows the wait.
bool WaitsForAll(const capture::Capture& capture, const Instance& instance) {
  if (capture::IsSymmetric(instance.op) && instance.op != CollectiveOp::kAllToAllV) return true;
  return instance.op == CollectiveOp::kSendReceive && !IsTransfer(capture, instance);
}

class Timer {
 public:
  Timer(const capture::Capture& capture, const capture::Matches& matches, const capture::ClockModel& clock)
      : capture_(capture), matches_(matches), clock_(clock), grouped_(capture, matches, clock) {}

  CollectiveTimes Run() {
    out_.instances.resize(matches_.instances.size());
    out_.caused_wait.resize(capture_.ranks.size());
    out_.times_last.resize(capture_.ranks.size());
    out_.parts.resize(capture_.ranks.size());
    for (size_t r = 0; r < capture_.ranks.size(); ++r)
      out_.parts[r].resize(capture_.ranks[r].collectives.size());
    MeasureExitSkew();
    FindRoots();
    FindRendezvous();
    grouped_.Time([this](const Instance& message) { return IsRendezvous(message); }, out_.parts);
    for (size_t n = 0; n < matches_.instances.size(); ++n) Time(matches_.instances[n], out_.instances[n]);
    return std::move(out_);
  }

 private:
  JobTime Start(const Member& m) const { return StartOfMember(capture_, clock_, m); }
  JobTime End(const Member& m) const { return EndOfMember(capture_, clock_, m); }
  Nanos Duration(const Member& m) const { return DurationOf(capture_, m); }
  Part& PartOf(const Member& m) { return out_.parts[m.rank_index][m.collective]; }

  // If only the kernel's name is known, a broadcast's root is unknown. Causality often shows it, because no
  // member ends before the root began. So every rank but the true root is contradicted at some time by more
  // than the clocks' bound.
  void FindRoots() {
    struct Tally {
      std::vector<uint32_t> possible;  // instances that allow a member as root, by index in the member list
      uint32_t instances = 0;
    };
    absl::flat_hash_map<std::pair<uint32_t, CollectiveOp>, Tally> tallies;
    for (const Instance& instance : matches_.instances) {
      if (instance.op != CollectiveOp::kBroadcast || !instance.complete ||
          StatedRoot(capture_, instance) >= 0)
        continue;
      Tally& tally = tallies[{instance.group, instance.op}];
      tally.possible.resize(instance.members.size());
      ++tally.instances;
      for (size_t root = 0; root < instance.members.size(); ++root) {
        const bool contradicted =
            std::any_of(instance.members.begin(), instance.members.end(), [&](const Member& m) {
              const Nanos bound =
                  PairBound(clock_, RankOf(capture_, m).host, RankOf(capture_, instance.members[root]).host);
              return bound != Nanos::Max() && End(m) + bound < Start(instance.members[root]);
            });
        tally.possible[root] += contradicted ? 0 : 1;
      }
    }
    for (const auto& [key, tally] : tallies) {
      const auto possible = std::count(tally.possible.begin(), tally.possible.end(), tally.instances);
      if (possible != 1) continue;
      found_root_[key] = static_cast<size_t>(
          std::find(tally.possible.begin(), tally.possible.end(), tally.instances) - tally.possible.begin());
    }
  }

  // Kind of a message: its bytes, and true if both ranks share a host.
  std::pair<int64_t, bool> MessageKind(const Instance& instance) const {
    const bool one_host =
        RankOf(capture_, instance.members[0]).host == RankOf(capture_, instance.members[1]).host;
    return {At(capture_, instance.members[0]).bytes, one_host};
  }

  // A message that fits a buffer is sent even without a receiver. The sender of a larger message waits for
  // its receiver. No record states the case, but receivers that come late show it: the send has ended by
  // then, or it has not.
  void FindRendezvous() {
    struct Votes {
      uint32_t waited = 0, left = 0;
    };
    absl::flat_hash_map<std::pair<int64_t, bool>, Votes> votes;
    for (const Instance& instance : matches_.instances) {
      if (!instance.usable || instance.members.size() != 2 || !IsTransfer(capture_, instance)) continue;
      const size_t from = At(capture_, instance.members[0]).op == CollectiveOp::kSend ? 0 : 1;
      const Member& send = instance.members[from];
      const Member& receive = instance.members[1 - from];
      const Nanos bound = PairBound(clock_, RankOf(capture_, send).host, RankOf(capture_, receive).host);
      if (bound == Nanos::Max() || Start(receive) - Start(send) <= Duration(receive) + bound) continue;
      Votes& v = votes[MessageKind(instance)];
      const bool left = End(send) + bound < Start(receive);
      // If the clocks cannot decide whether the send ended before the receiver came, its length decides.
      const bool longer = Duration(send).ns() > kClearlyLonger * Duration(receive).ns();
      if (left) ++v.left;
      if (!left && (longer || End(send) > Start(receive) + bound) &&
          grouped_.OthersCameBefore(send, Start(receive)))
        ++v.waited;
    }
    for (const auto& [kind, v] : votes) {
      if (v.waited >= kLeastVotes && v.waited >= kMajority * (v.waited + v.left)) rendezvous_.insert(kind);
    }
  }

  bool IsRendezvous(const Instance& instance) const {
    return instance.members.size() == 2 && IsTransfer(capture_, instance) &&
           rendezvous_.contains(MessageKind(instance));
  }

  void Time(const Instance& instance, InstanceTiming& timing) {
    JobTime earliest = JobTime::Max(), latest = JobTime::Min();
    for (const Member& m : instance.members) {
      earliest = std::min(earliest, Start(m));
      latest = std::max(latest, Start(m));
    }
    timing.skew = latest - earliest;
    timing.symmetric = WaitsForAll(capture_, instance);
    if (!instance.usable) return;
    timing.partial = !instance.complete;
    timing.rendezvous = IsRendezvous(instance);
    if (timing.symmetric) {
      TimeSymmetric(instance, latest, timing);
    } else if (std::any_of(instance.members.begin(), instance.members.end(),
                           [&](const Member& m) { return grouped_.Has(m); })) {
      TimeMessage(instance, timing);
    } else {
      TimeDirected(instance, timing);
    }
    if (timing.split && timing.last != kNone) {
      const uint32_t rank = instance.members[timing.last].rank_index;
      ++out_.times_last[rank];
      for (const Member& m : instance.members) {
        if (m.rank_index != rank) out_.caused_wait[rank] += PartOf(m).wait;
      }
    }
  }

  Nanos ExitSkew(Nanos transfer) const { return std::max(usual_exit_skew_, transfer / kExitSkewPart); }

  // The distance that almost all neighbours on one host keep, if it exceeds the usual one.
  void MeasureExitSkew() {
    std::vector<int64_t> apart;
    for (const Instance& instance : matches_.instances) {
      if (!instance.usable || !WaitsForAll(capture_, instance)) continue;
      for (size_t i = 1; i < instance.members.size(); ++i) {
        const Member& a = instance.members[i - 1];
        const Member& b = instance.members[i];
        if (RankOf(capture_, a).host != RankOf(capture_, b).host || RankOf(capture_, a).host == kNone)
          continue;
        const Nanos ends = ActivityOf(capture_, a).end - ActivityOf(capture_, b).end;
        apart.push_back(ends < Nanos() ? -ends.ns() : ends.ns());
      }
    }
    if (apart.size() >= kLeastMeasured)
      usual_exit_skew_ = std::max(kExitSkew, Nanos(PercentileInPlace(apart, 0.99)));
  }

  // Returns the last arriver by the clocks, if it stayed longer than a member that clearly came earlier. It
  // did not wait, so its own transfer was delayed. kNone: durations and clocks agree on the last arriver.
  uint32_t StalledLast(const Instance& instance, uint32_t shortest, Nanos least) const {
    uint32_t latest = 0;
    for (uint32_t i = 1; i < instance.members.size(); ++i) {
      if (Start(instance.members[i]) > Start(instance.members[latest])) latest = i;
    }
    if (latest == shortest) return kNone;
    const Nanos bound = PairBound(clock_, RankOf(capture_, instance.members[latest]).host,
                                  RankOf(capture_, instance.members[shortest]).host);
    if (bound == Nanos::Max()) return kNone;
    const Nanos clear = bound + ExitSkew(least);
    const bool came_later = Start(instance.members[latest]) - Start(instance.members[shortest]) > clear;
    return came_later && Duration(instance.members[latest]) - least > clear ? latest : kNone;
  }

  // Duration of the operation without waiting, from earlier instances of its kind. nullopt: there are none.
  std::optional<Nanos> Reference(const Instance& instance) {
    const auto it = recent_.find(ClassOf(instance));
    if (it == recent_.end() || it->second.empty()) return std::nullopt;
    std::vector<Nanos> sorted(it->second.begin(), it->second.end());
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / kTrimmedOneIn];
  }

  using TransferClass = std::tuple<uint32_t, CollectiveOp, int64_t>;  // group, operation, bytes
  TransferClass ClassOf(const Instance& instance) const {
    return {instance.group, instance.op, At(capture_, instance.members[0]).bytes};
  }

  void Remember(const Instance& instance, Nanos transfer) {
    std::deque<Nanos>& recent = recent_[ClassOf(instance)];
    recent.push_back(transfer);
    if (recent.size() > kReferenceInstances) recent.pop_front();
  }

  void TimeSymmetric(const Instance& instance, JobTime latest, InstanceTiming& timing) {
    timing.split = true;
    timing.transfer = Nanos::Max();
    for (uint32_t i = 0; i < instance.members.size(); ++i) {
      const Nanos duration = Duration(instance.members[i]);
      if (duration < timing.transfer) {
        timing.transfer = duration;
        timing.last = i;
      }
    }
    const uint32_t stalled = StalledLast(instance, timing.last, timing.transfer);
    if (stalled == kNone) {
      if (!timing.partial) Remember(instance, timing.transfer);
    } else {
      timing.last = stalled;
      timing.transfer = std::min(timing.transfer, Reference(instance).value_or(timing.transfer));
      timing.stalled = Duration(instance.members[stalled]) - timing.transfer;
      ++out_.stalled;
    }
    const uint32_t last_host = RankOf(capture_, instance.members[timing.last]).host;
    bool disagrees = false;
    for (uint32_t i = 0; i < instance.members.size(); ++i) {
      const Member& m = instance.members[i];
      Part& part = PartOf(m);
      const Nanos duration = Duration(m);
      part.split = !timing.partial;
      part.wait = i == stalled ? Nanos() : duration - timing.transfer;
      part.wait_by_clock = std::clamp(latest - Start(m), Nanos(), duration);
      const Nanos bound = PairBound(clock_, RankOf(capture_, m).host, last_host);
      const Nanos apart =
          part.wait > part.wait_by_clock ? part.wait - part.wait_by_clock : part.wait_by_clock - part.wait;
      if (bound != Nanos::Max() && apart > bound + ExitSkew(timing.transfer)) disagrees = true;
    }
    out_.disagreeing += disagrees ? 1 : 0;
  }

  // Returns the member whose start this one needed last, or kNone if it needs none. nullopt: roles are
  // unknown.
  std::optional<uint32_t> Awaited(const Instance& instance, const InstanceTiming& timing, size_t to) const {
    if (timing.rendezvous) return static_cast<uint32_t>(1 - to);
    uint32_t awaited = kNone;
    for (uint32_t from = 0; from < instance.members.size(); ++from) {
      if (from == to) continue;
      std::optional<bool> needs = Needs(capture_, instance, to, from);
      if (!needs) {
        const auto root = found_root_.find({instance.group, instance.op});
        if (root == found_root_.end()) return std::nullopt;
        needs = from == root->second;
      }
      if (*needs && (awaited == kNone || Start(instance.members[from]) > Start(instance.members[awaited])))
        awaited = from;
    }
    return awaited;
  }

  // Both leave together, so the shorter duration is the transfer, independent of the clocks.
  void TimeRendezvous(const Instance& instance, InstanceTiming& timing) {
    timing.split = true;
    timing.last = Duration(instance.members[1]) < Duration(instance.members[0]) ? 1 : 0;
    timing.transfer = Duration(instance.members[timing.last]);
    for (const Member& m : instance.members) {
      PartOf(m).split = true;
      PartOf(m).wait = Duration(m) - timing.transfer;
    }
  }

  // A message of a kernel with several. The kernel's wait counts for the partner that came last, and for none
  // of the others.
  void TimeMessage(const Instance& instance, InstanceTiming& timing) {
    Nanos most_caused;
    timing.transfer = Nanos::Max();
    for (uint32_t to = 0; to < instance.members.size(); ++to) {
      const Member& m = instance.members[to];
      if (!grouped_.Has(m)) TimeMember(instance, timing, to);
      const Part& part = PartOf(m);
      if (!part.split) continue;
      timing.split = true;
      timing.transfer = std::min(timing.transfer, Duration(m) - part.wait);
      if (grouped_.Has(m) && !grouped_.WaitedFor(m)) continue;
      if (part.wait > most_caused) {
        most_caused = part.wait;
        timing.last = 1 - to;
      }
    }
    if (!timing.split) timing.transfer = Nanos();
  }

  // Returns the member that this one awaited, or kNone if it awaited none. nullopt: its wait is unknown.
  std::optional<uint32_t> TimeMember(const Instance& instance, const InstanceTiming& timing, size_t to) {
    const Member& m = instance.members[to];
    const auto awaited = Awaited(instance, timing, to);
    if (!awaited) return std::nullopt;
    if (*awaited != kNone) {
      const Member& from = instance.members[*awaited];
      const Nanos duration = Duration(m);
      if (PairBound(clock_, RankOf(capture_, m).host, RankOf(capture_, from).host) > duration)
        return std::nullopt;
      PartOf(m).wait = std::clamp(Start(from) - Start(m), Nanos(), duration);
    }
    PartOf(m).split = !timing.partial;
    return awaited;
  }

  void TimeDirected(const Instance& instance, InstanceTiming& timing) {
    if (timing.rendezvous && !timing.partial) return TimeRendezvous(instance, timing);
    Nanos most_caused;
    std::vector<Nanos> caused(instance.members.size());
    timing.transfer = Nanos::Max();
    for (size_t to = 0; to < instance.members.size(); ++to) {
      const auto awaited = TimeMember(instance, timing, to);
      if (!awaited) continue;
      const Member& m = instance.members[to];
      if (*awaited != kNone) caused[*awaited] += PartOf(m).wait;
      timing.split = true;
      timing.transfer = std::min(timing.transfer, Duration(m) - PartOf(m).wait);
    }
    if (!timing.split) timing.transfer = Nanos();
    for (uint32_t i = 0; i < caused.size(); ++i) {
      if (caused[i] > most_caused) {
        most_caused = caused[i];
        timing.last = i;
      }
    }
  }

  const capture::Capture& capture_;
  const capture::Matches& matches_;
  const capture::ClockModel& clock_;
  GroupedMessages grouped_;
  CollectiveTimes out_;
  Nanos usual_exit_skew_ = kExitSkew;
  absl::flat_hash_map<std::pair<uint32_t, CollectiveOp>, size_t> found_root_;  // index in the member list
  absl::flat_hash_set<std::pair<int64_t, bool>> rendezvous_;                   // MessageKind()
  absl::flat_hash_map<TransferClass, std::deque<Nanos>> recent_;               // transfers, latest last
};

}  // namespace

Nanos PairBound(const capture::ClockModel& clock, uint32_t host_a, uint32_t host_b) {
  if (host_a == host_b) return Nanos();
  if (host_a >= clock.hosts().size() || host_b >= clock.hosts().size()) return Nanos::Max();
  const Nanos a = clock.hosts()[host_a].bound;
  const Nanos b = clock.hosts()[host_b].bound;
  return a == Nanos::Max() || b == Nanos::Max() ? Nanos::Max() : a + b;
}

std::optional<bool> Needs(const capture::Capture& capture, const Instance& instance, size_t to, size_t from) {
  if (to == from || WaitsForAll(capture, instance)) return true;
  if (instance.op == CollectiveOp::kAllToAllV) return true;
  const CollectiveOp op_to = At(capture, instance.members[to]).op;
  const CollectiveOp op_from = At(capture, instance.members[from]).op;
  if (op_to == CollectiveOp::kReceive) return op_from == CollectiveOp::kSend;
  if (op_to == CollectiveOp::kSend) return false;
  if (!Rooted(instance.op)) return std::nullopt;
  const int32_t root = StatedRoot(capture, instance);
  if (root < 0) return std::nullopt;
  const bool collects = instance.op == CollectiveOp::kReduce || instance.op == CollectiveOp::kGather;
  const Member& needy = instance.members[collects ? to : from];
  const int32_t place = RankInGroup(capture, instance, needy);
  if (place < 0) return std::nullopt;
  return place == root;
}

int32_t StepOfInstance(const capture::Capture& capture, const Instance& instance,
                       const InstanceTiming& timing, const Steps& steps) {
  if (!timing.split || timing.last == kNone) return kAfterSteps;
  const Member& m = instance.members[timing.last];
  const uint32_t activity = At(capture, m).activity;
  const auto& of_activity = steps.ranks[m.rank_index].of_activity;
  return activity < of_activity.size() ? of_activity[activity] : kAfterSteps;
}

Part PartOfKernel(std::span<const Part> rows) {
  Part out = rows.front();
  for (const Part& part : rows.subspan(1)) {
    out.wait = std::max(out.wait, part.wait);
    out.wait_by_clock = std::max(out.wait_by_clock, part.wait_by_clock);
    out.split &= part.split;
  }
  return out;
}

std::vector<Nanos> CausedWaitInSteps(const capture::Capture& capture, const capture::Matches& matches,
                                     const CollectiveTimes& times, const Steps& steps) {
  std::vector<Nanos> caused(capture.ranks.size());
  for (size_t n = 0; n < matches.instances.size(); ++n) {
    const Instance& instance = matches.instances[n];
    if (StepOfInstance(capture, instance, times.instances[n], steps) < 0) continue;
    const uint32_t last = instance.members[times.instances[n].last].rank_index;
    for (const Member& m : instance.members) {
      if (m.rank_index != last) caused[last] += times.parts[m.rank_index][m.collective].wait;
    }
  }
  return caused;
}

Nanos MostUnseenWait(const capture::Capture& capture, const capture::Matches& matches,
                     const CollectiveTimes& times, const Steps& steps) {
  const auto class_of = [&](const Instance& i) {
    return std::tuple(i.group, i.op, At(capture, i.members[0]).bytes);
  };
  absl::flat_hash_map<std::tuple<uint32_t, CollectiveOp, int64_t>, Nanos> shortest;
  for (size_t n = 0; n < matches.instances.size(); ++n) {
    if (!times.instances[n].split || !times.instances[n].symmetric) continue;
    const auto it = shortest.try_emplace(class_of(matches.instances[n]), times.instances[n].transfer).first;
    it->second = std::min(it->second, times.instances[n].transfer);
  }
  std::vector<Nanos> by_rank(capture.ranks.size());
  for (size_t n = 0; n < matches.instances.size(); ++n) {
    const InstanceTiming& timing = times.instances[n];
    const Instance& instance = matches.instances[n];
    if (!timing.partial || !timing.symmetric || StepOfInstance(capture, instance, timing, steps) < 0)
      continue;
    for (const Member& m : instance.members)
      by_rank[m.rank_index] += timing.transfer - shortest[class_of(instance)];
  }
  return by_rank.empty() ? Nanos() : *std::max_element(by_rank.begin(), by_rank.end());
}

CollectiveTimes TimeCollectives(const capture::Capture& capture, const capture::Matches& matches,
                                const capture::ClockModel& clock) {
  return Timer(capture, matches, clock).Run();
}

}  // namespace lockstep::analysis
