#include "aggregator/analysis/collectives.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"

namespace lockstep::analysis {
namespace {

using align::Instance;
using align::Member;
using store::CollectiveOp;
using store::kNone;

// Exit skew seen on healthy hardware; a larger difference between the two ways to measure a wait is reported.
// Large operations over slow links end up to a tenth of their length apart.
constexpr Nanos kExitSkew = Nanos::Micros(50);
constexpr int64_t kExitSkewPart = 10;

const store::RankData& RankOf(const store::Capture& capture, const Member& m) { return capture.ranks[m.rank_index]; }
const store::Collective& At(const store::Capture& capture, const Member& m) {
  return RankOf(capture, m).collectives[m.collective];
}
const store::DeviceActivity& ActivityOf(const store::Capture& capture, const Member& m) {
  return RankOf(capture, m).activities[At(capture, m).activity];
}

bool Rooted(CollectiveOp op) {
  return op == CollectiveOp::kBroadcast || op == CollectiveOp::kReduce || op == CollectiveOp::kGather ||
         op == CollectiveOp::kScatter;
}

// Rank in the group that is the root, or -1.
int32_t StatedRoot(const store::Capture& capture, const Instance& instance) {
  for (const Member& m : instance.members) {
    if (At(capture, m).root >= 0) return At(capture, m).root;
  }
  return -1;
}

int32_t RankInGroup(const store::Capture& capture, const Instance& instance, const Member& m) {
  const auto& members = capture.groups[instance.group].members;
  const auto it = std::find(members.begin(), members.end(), RankOf(capture, m).rank);
  return it == members.end() ? -1 : static_cast<int32_t>(it - members.begin());
}

bool IsTransfer(const store::Capture& capture, const Instance& instance) {
  const CollectiveOp op = At(capture, instance.members[0]).op;
  return op == CollectiveOp::kSend || op == CollectiveOp::kReceive;
}

// Everybody needs everybody: the duration alone tells the wait.
bool WaitsForAll(const store::Capture& capture, const Instance& instance) {
  if (store::IsSymmetric(instance.op) && instance.op != CollectiveOp::kAllToAllV) return true;
  return instance.op == CollectiveOp::kSendReceive && !IsTransfer(capture, instance);
}

class Timer {
 public:
  Timer(const store::Capture& capture, const align::Matches& matches, const align::ClockModel& clock)
      : capture_(capture), matches_(matches), clock_(clock) {}

  CollectiveTimes Run() {
    out_.instances.resize(matches_.instances.size());
    out_.caused_wait.resize(capture_.ranks.size());
    out_.times_last.resize(capture_.ranks.size());
    out_.parts.resize(capture_.ranks.size());
    for (size_t r = 0; r < capture_.ranks.size(); ++r) out_.parts[r].resize(capture_.ranks[r].collectives.size());
    FindRoots();
    for (size_t n = 0; n < matches_.instances.size(); ++n) Time(matches_.instances[n], out_.instances[n]);
    return std::move(out_);
  }

 private:
  JobTime Start(const Member& m) const { return clock_.ToJob(RankOf(capture_, m).host, ActivityOf(capture_, m).start); }
  JobTime End(const Member& m) const { return clock_.ToJob(RankOf(capture_, m).host, ActivityOf(capture_, m).end); }
  // A reversed record counts as no time.
  Nanos Duration(const Member& m) const {
    return std::max(Nanos(), ActivityOf(capture_, m).end - ActivityOf(capture_, m).start);
  }
  Part& PartOf(const Member& m) { return out_.parts[m.rank_index][m.collective]; }

  // A broadcast whose kernel name is all we know does not say its root. Causality often does: nobody ends before the root
  // began, so every rank but the true root is sooner or later contradicted by more than the clocks' bound.
  void FindRoots() {
    struct Tally {
      std::vector<uint32_t> possible;  // instances that contradict nobody, by place in the member list
      uint32_t instances = 0;
    };
    absl::flat_hash_map<std::pair<uint32_t, CollectiveOp>, Tally> tallies;
    for (const Instance& instance : matches_.instances) {
      if (instance.op != CollectiveOp::kBroadcast || !instance.complete || StatedRoot(capture_, instance) >= 0) continue;
      Tally& tally = tallies[{instance.group, instance.op}];
      tally.possible.resize(instance.members.size());
      ++tally.instances;
      for (size_t root = 0; root < instance.members.size(); ++root) {
        const bool contradicted = std::any_of(instance.members.begin(), instance.members.end(), [&](const Member& m) {
          const Nanos bound = PairBound(clock_, RankOf(capture_, m).host, RankOf(capture_, instance.members[root]).host);
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

  void Time(const Instance& instance, InstanceTiming& timing) {
    JobTime earliest = JobTime::Max(), latest = JobTime::Min();
    for (const Member& m : instance.members) {
      earliest = std::min(earliest, Start(m));
      latest = std::max(latest, Start(m));
    }
    timing.skew = latest - earliest;
    timing.symmetric = WaitsForAll(capture_, instance);
    if (!instance.complete) return;
    if (timing.symmetric) {
      TimeSymmetric(instance, latest, timing);
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
    const uint32_t last_host = RankOf(capture_, instance.members[timing.last]).host;
    bool disagrees = false;
    for (const Member& m : instance.members) {
      Part& part = PartOf(m);
      const Nanos duration = Duration(m);
      part.split = true;
      part.wait = duration - timing.transfer;
      part.wait_by_clock = std::clamp(latest - Start(m), Nanos(), duration);
      const Nanos bound = PairBound(clock_, RankOf(capture_, m).host, last_host);
      const Nanos apart = part.wait > part.wait_by_clock ? part.wait - part.wait_by_clock : part.wait_by_clock - part.wait;
      const Nanos exit_skew = std::max(kExitSkew, timing.transfer / kExitSkewPart);
      if (bound != Nanos::Max() && apart > bound + exit_skew) disagrees = true;
    }
    out_.disagreeing += disagrees ? 1 : 0;
  }

  // The member whose start this one needed last, or kNone when it needs nobody's; nullopt when roles are unknown.
  std::optional<uint32_t> Awaited(const Instance& instance, size_t to) const {
    uint32_t awaited = kNone;
    for (uint32_t from = 0; from < instance.members.size(); ++from) {
      if (from == to) continue;
      std::optional<bool> needs = Needs(capture_, instance, to, from);
      if (!needs) {
        const auto root = found_root_.find({instance.group, instance.op});
        if (root == found_root_.end()) return std::nullopt;
        needs = from == root->second;
      }
      if (*needs && (awaited == kNone || Start(instance.members[from]) > Start(instance.members[awaited]))) awaited = from;
    }
    return awaited;
  }

  void TimeDirected(const Instance& instance, InstanceTiming& timing) {
    Nanos most_caused;
    std::vector<Nanos> caused(instance.members.size());
    timing.transfer = Nanos::Max();
    for (size_t to = 0; to < instance.members.size(); ++to) {
      const Member& m = instance.members[to];
      Part& part = PartOf(m);
      const auto awaited = Awaited(instance, to);
      if (!awaited) continue;
      const Nanos duration = Duration(m);
      if (*awaited == kNone) {
        part.split = true;
      } else {
        const Member& from = instance.members[*awaited];
        const Nanos bound = PairBound(clock_, RankOf(capture_, m).host, RankOf(capture_, from).host);
        if (bound > duration) continue;
        part.split = true;
        part.wait = std::clamp(Start(from) - Start(m), Nanos(), duration);
        caused[*awaited] += part.wait;
      }
      timing.split = true;
      timing.transfer = std::min(timing.transfer, duration - part.wait);
    }
    if (!timing.split) timing.transfer = Nanos();
    for (uint32_t i = 0; i < caused.size(); ++i) {
      if (caused[i] > most_caused) {
        most_caused = caused[i];
        timing.last = i;
      }
    }
  }

  const store::Capture& capture_;
  const align::Matches& matches_;
  const align::ClockModel& clock_;
  CollectiveTimes out_;
  absl::flat_hash_map<std::pair<uint32_t, CollectiveOp>, size_t> found_root_;  // place in the member list
};

}  // namespace

Nanos PairBound(const align::ClockModel& clock, uint32_t host_a, uint32_t host_b) {
  if (host_a == host_b) return Nanos();
  if (host_a >= clock.hosts().size() || host_b >= clock.hosts().size()) return Nanos::Max();
  const Nanos a = clock.hosts()[host_a].bound;
  const Nanos b = clock.hosts()[host_b].bound;
  return a == Nanos::Max() || b == Nanos::Max() ? Nanos::Max() : a + b;
}

std::optional<bool> Needs(const store::Capture& capture, const Instance& instance, size_t to, size_t from) {
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

int32_t StepOfInstance(const store::Capture& capture, const Instance& instance, const InstanceTiming& timing, const Steps& steps) {
  if (!timing.split || timing.last == kNone) return kAfterSteps;
  const Member& m = instance.members[timing.last];
  const uint32_t activity = At(capture, m).activity;
  const auto& of_activity = steps.ranks[m.rank_index].of_activity;
  return activity < of_activity.size() ? of_activity[activity] : kAfterSteps;
}

std::vector<Nanos> CausedWaitInSteps(const store::Capture& capture, const align::Matches& matches, const CollectiveTimes& times,
                                     const Steps& steps) {
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

CollectiveTimes TimeCollectives(const store::Capture& capture, const align::Matches& matches,
                                const align::ClockModel& clock) {
  return Timer(capture, matches, clock).Run();
}

}  // namespace lockstep::analysis
