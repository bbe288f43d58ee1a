#include "capture/align/message_match.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "base/median.h"
#include "capture/align/call_places.h"
#include "capture/align/transfer_match.h"

namespace lockstep::capture {
namespace {

using capture::Collective;
using capture::CollectiveOp;

constexpr size_t kLeastSyncPointsOfPair = 2;
// Messages are matched up to this many times, each time with better clocks, until only the window's edges are
// left.
constexpr int kRounds = 3;
constexpr double kNearlyAll = 0.99;

using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;

class Messages {
 public:
  Messages(const capture::Capture& capture, const GroupMembers& groups, const ClockModel& clock,
           std::span<const Instance> instances, MatchStatuses& match_statuses)
      : capture_(capture),
        groups_(groups),
        clock_(clock),
        instances_(instances),
        statuses_(match_statuses),
        calls_(capture.ranks.size()) {
    FindSyncPoints();
  }

  std::vector<Instance> Run() {
    std::map<std::tuple<uint32_t, int32_t, int32_t>, Sides> by_pair;  // group, source, destination
    for (uint32_t r = 0; r < capture_.ranks.size(); ++r) {
      const capture::RankData& rank = capture_.ranks[r];
      for (uint32_t i = 0; i < rank.collectives.size(); ++i) {
        const Collective& c = rank.collectives[i];
        if (c.group >= capture_.groups.size() || !NamesItsPeer(c)) continue;
        const int32_t own = groups_.Place(c.group, r);
        if (own < 0) continue;
        const bool sends = c.op == CollectiveOp::kSend;
        Sides& sides = by_pair[{c.group, sends ? own : c.peer, sends ? c.peer : own}];
        (sends ? sides.sends : sides.receives)[rank.activities[c.activity].stream].push_back({r, i});
      }
    }
    for (const auto& [key, sides] : by_pair) MatchStreams(std::get<0>(key), sides);
    return std::move(out_);
  }

 private:
  using ByStream = std::map<StreamId, std::vector<Member>>;
  struct Sides {
    ByStream sends, receives;
  };

  const Collective& At(const Member& m) const {
    return capture_.ranks[m.rank_index].collectives[m.collective];
  }
  uint32_t HostOf(const Member& m) const { return capture_.ranks[m.rank_index].host; }

  // Both sides may use several streams, for example for activations and gradients between the same two ranks.
  // Each stream keeps its own order. Streams belong together if they hold equally many messages and their
  // transfers are steady.
  void MatchStreams(uint32_t group, const Sides& sides) {
    if (sides.sends.size() < 2 || sides.receives.size() < 2) {
      MatchPair(group, Merged(sides.sends), Merged(sides.receives));
      return;
    }
    struct Candidate {
      double misfit;
      StreamId send, receive;
    };
    std::vector<Candidate> candidates;
    for (const auto& [send, from] : sides.sends) {
      for (const auto& [receive, to] : sides.receives)
        candidates.push_back({Misfit(from, to), send, receive});
    }
    std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      return std::tuple(a.misfit, a.send, a.receive) < std::tuple(b.misfit, b.send, b.receive);
    });
    ByStream sends = sides.sends, receives = sides.receives;
    for (const Candidate& c : candidates) {
      if (!sends.contains(c.send) || !receives.contains(c.receive)) continue;
      MatchPair(group, sends[c.send], receives[c.receive]);
      sends.erase(c.send);
      receives.erase(c.receive);
    }
    MatchPair(group, Merged(sends), Merged(receives));
  }

  static std::vector<Member> Merged(const ByStream& by_stream) {
    std::vector<Member> out;
    for (const auto& [stream, members] : by_stream) out.insert(out.end(), members.begin(), members.end());
    std::sort(out.begin(), out.end(), [](const Member& a, const Member& b) {
      return std::pair(a.rank_index, a.collective) < std::pair(b.rank_index, b.collective);
    });
    return out;
  }

  // 0 for two streams whose messages pair one to one and take equally long.
  double Misfit(const std::vector<Member>& sends, const std::vector<Member>& receives) {
    const auto from = OnJobClock(sends), to = OnJobClock(receives);
    const Pairs pairs = PairTransfers(from, to, ClocksOf(sends[0], receives[0]));
    if (pairs.empty()) return INFINITY;
    std::vector<double> transfers;
    for (const auto& [i, j] : pairs)
      transfers.push_back(static_cast<double>((to[j].end - std::max(from[i].start, to[j].start)).ns()));
    const double typical = UpperMedianInPlace(transfers);
    double away = 0;
    for (double t : transfers) away += std::fabs(t - typical) / static_cast<double>(transfers.size());
    const auto most = static_cast<double>(std::max(sends.size(), receives.size()));
    return (most - static_cast<double>(pairs.size())) / most + away / (std::fabs(typical) + away + 1e3);
  }

  TransferClocks ClocksOf(const Member& sender, const Member& receiver) const {
    const uint32_t a = sender.rank_index, b = receiver.rank_index;
    TransferClocks out;
    out.bound = HostOf(sender) == HostOf(receiver) ? Nanos() : clock_.bound();
    out.lost = CallPlaces::AnyLost(capture_.ranks[a]) || CallPlaces::AnyLost(capture_.ranks[b]);
    // Synchronisation points are the instances of the group that both ranks share least often: once per step.
    const std::vector<uint32_t>* seldom = nullptr;
    for (const auto& [group, instances] : sync_points_) {
      if (groups_.Place(group, a) < 0 || groups_.Place(group, b) < 0) continue;
      if (seldom == nullptr || instances.size() < seldom->size()) seldom = &instances;
    }
    if (seldom == nullptr) return out;
    for (uint32_t n : *seldom) {
      const std::optional<JobTime> sent = EndOf(instances_[n], a), received = EndOf(instances_[n], b);
      if (sent && received)
        out.sync_points.push_back({static_cast<double>((*sent - JobTime()).ns()),
                                   static_cast<double>((*received - JobTime()).ns())});
    }
    std::sort(out.sync_points.begin(), out.sync_points.end(),
              [](const SyncPoint& x, const SyncPoint& y) { return x.sender_ns < y.sender_ns; });
    return out;
  }

  std::optional<JobTime> EndOf(const Instance& instance, uint32_t rank) const {
    const auto& members = instance.members;
    const auto m = std::lower_bound(members.begin(), members.end(), rank,
                                    [](const Member& x, uint32_t r) { return x.rank_index < r; });
    if (m == members.end() || m->rank_index != rank) return std::nullopt;
    return clock_.ToJob(HostOf(*m), capture_.ranks[rank].activities[At(*m).activity].end);
  }

  void FindSyncPoints() {
    for (uint32_t n = 0; n < instances_.size(); ++n) {
      if (instances_[n].members.size() > 1 && LeavesTogether(instances_[n].op))
        sync_points_[instances_[n].group].push_back(n);
    }
    std::erase_if(sync_points_, [](const auto& m) { return m.second.size() < kLeastSyncPointsOfPair; });
  }

  void MatchPair(uint32_t group, const std::vector<Member>& sends, const std::vector<Member>& receives) {
    if (sends.empty() || receives.empty()) {
      // The other rank has no records of these messages.
      for (const auto* side : {&sends, &receives}) {
        for (const Member& m : *side) statuses_[m.rank_index][m.collective] = MatchStatus::kPartnerLost;
      }
      return;
    }
    const Pairs pairs =
        PairTransfers(OnJobClock(sends), OnJobClock(receives), ClocksOf(sends[0], receives[0]));
    if (!pairs.empty()) {
      ExplainUnpaired(sends, pairs.front().first, pairs.back().first, receives[0]);
      ExplainUnpaired(receives, pairs.front().second, pairs.back().second, sends[0]);
    }
    for (const auto& [send, receive] : pairs) {
      Instance instance{.group = group,
                        .op = CollectiveOp::kSendReceive,
                        .source = At(sends[send]).source,
                        .members = {sends[send], receives[receive]}};
      if (instance.members[0].rank_index > instance.members[1].rank_index)
        std::swap(instance.members[0], instance.members[1]);
      instance.complete = instance.usable = true;
      out_.push_back(std::move(instance));
    }
  }

  // A message before the first pair or after the last one lies outside the other rank's window. Between them,
  // the partner's record was lost.
  void ExplainUnpaired(const std::vector<Member>& side, uint32_t first, uint32_t last, const Member& other) {
    const capture::RankData& rank = capture_.ranks[other.rank_index];
    const Nanos bound = HostOf(side[0]) == HostOf(other) ? Nanos() : clock_.bound();
    const JobTime over =
        bound == Nanos::Max() ? JobTime::Min() : clock_.ToJob(rank.host, rank.activities.back().end) - bound;
    for (uint32_t i = 0; i < side.size(); ++i) {
      MatchStatus status = i < first || i > last ? MatchStatus::kCutByWindow : MatchStatus::kPartnerLost;
      // A message that was received within the sender's window, after the last pair, was also sent within it.
      if (i > last && At(side[i]).op == CollectiveOp::kReceive && EndOf(side[i]) < over)
        status = MatchStatus::kUnmatched;
      statuses_[side[i].rank_index][side[i].collective] = status;
    }
  }

  JobTime EndOf(const Member& m) const {
    return clock_.ToJob(HostOf(m), capture_.ranks[m.rank_index].activities[At(m).activity].end);
  }

  std::vector<TransferSide> OnJobClock(const std::vector<Member>& members) {
    std::vector<TransferSide> out;
    const std::optional<std::vector<int64_t>> places = PlacesOf(members);
    for (const Member& m : members) {
      const capture::DeviceActivity& a = capture_.ranks[m.rank_index].activities[At(m).activity];
      const int64_t place = places ? (*places)[out.size()] + kBeforeTheFirst : -1;
      out.push_back(
          {clock_.ToJob(HostOf(m), a.start), clock_.ToJob(HostOf(m), a.end), place, IsAmongOthers(m)});
    }
    return out;
  }

  bool IsAmongOthers(const Member& m) const {
    const std::vector<Collective>& rows = capture_.ranks[m.rank_index].collectives;
    const uint32_t i = m.collective, kernel = rows[i].activity;
    return (i > 0 && rows[i - 1].activity == kernel) ||
           (i + 1 < rows.size() && rows[i + 1].activity == kernel);
  }

  // Without lost records, a place is the index among the recorded messages.
  std::optional<std::vector<int64_t>> PlacesOf(const std::vector<Member>& members) {
    const uint32_t r = members[0].rank_index;
    const capture::RankData& rank = capture_.ranks[r];
    if (!CallPlaces::AnyLost(rank)) {
      std::vector<int64_t> seen(members.size());
      std::iota(seen.begin(), seen.end(), int64_t{0});
      return seen;
    }
    if (!calls_[r]) calls_[r].emplace(rank);
    std::vector<uint32_t> collectives;
    for (const Member& m : members) collectives.push_back(m.collective);
    return calls_[r]->Of(rank, collectives);
  }

  // Places count from the window's first whole step. This offset keeps earlier places positive.
  static constexpr int64_t kBeforeTheFirst = int64_t{1} << 32;

  const capture::Capture& capture_;
  const GroupMembers& groups_;
  const ClockModel& clock_;
  std::span<const Instance> instances_;
  std::map<uint32_t, std::vector<uint32_t>> sync_points_;  // by group: instances whose members leave together
  MatchStatuses& statuses_;
  std::vector<std::optional<CallPlaces>> calls_;  // by rank, created on first use
  std::vector<Instance> out_;
};

}  // namespace

bool NamesItsPeer(const Collective& c) {
  return (c.op == CollectiveOp::kSend || c.op == CollectiveOp::kReceive) && c.peer >= 0;
}

// If hosts share few collectives, their clocks are uncertain at first and only part of their messages match.
// These messages make the clocks more precise, so the next round matches more of them.
void AppendMessages(const capture::Capture& capture, const GroupMembers& groups, ClockModel& clock,
                    Matches& matches, MatchStatuses& match_statuses) {
  size_t kernels = 0;
  for (const capture::RankData& rank : capture.ranks)
    kernels +=
        static_cast<size_t>(std::count_if(rank.collectives.begin(), rank.collectives.end(), NamesItsPeer));
  if (kernels == 0) return;
  const size_t collectives = matches.instances.size();
  const MatchStatuses before = match_statuses;
  for (int round = 0; round < kRounds; ++round) {
    MatchStatuses found = before;
    std::vector<Instance> messages =
        Messages(capture, groups, clock, std::span(matches.instances).first(collectives), found).Run();
    if (round > 0 && messages.size() <= matches.instances.size() - collectives) return;
    matches.instances.resize(collectives);
    matches.instances.insert(matches.instances.end(), std::make_move_iterator(messages.begin()),
                             std::make_move_iterator(messages.end()));
    match_statuses = std::move(found);
    if (static_cast<double>(2 * messages.size()) >= kNearlyAll * static_cast<double>(kernels)) return;
    clock = EstimateClocks(capture, matches);
  }
}

}  // namespace lockstep::capture
