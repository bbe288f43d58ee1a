#include "analysis/replay/rank_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "analysis/prepare/launch_queue.h"
#include "analysis/replay/device_streams.h"

namespace lockstep::analysis {
namespace {

using capture::ActivityKind;
using capture::ApiCall;
using capture::DeviceActivity;
using capture::kNone;
using capture::SyncType;

constexpr uint8_t kDeviceToHost = 2;  // CUPTI's kind of copy

// A device operation follows one of another stream if it starts at most this long after that one's end, and a
// stream wait was issued in between. A start within kExplainedNs of a known predecessor needs no other
// explanation. If the device needs longer between operations, multiples of that gap apply.
constexpr double kFollowsNs = 10'000, kFollowsGaps = 5;
constexpr double kExplainedNs = 1'500, kExplainedGaps = 1.5;
// In a profiler's records, a device's timer may lie this far from its host's clock (14 us over many steps
// were seen). Recorded launches and waits are kept if stamps contradict them by less. Dependencies that only
// stamps show are not.
constexpr double kTimersNs = 50'000;

class Builder {
 public:
  Builder(const GraphInput& input, uint32_t rank_index, Graph& graph, std::vector<AwaitEdge>& awaits,
          std::vector<Follow>& follows)
      : in_(input),
        rank_(input.capture.ranks[rank_index]),
        steps_(input.steps.ranks[rank_index]),
        calls_(input.calls[rank_index]),
        names_(*input.names),
        rank_index_(rank_index),
        g_(graph),
        awaits_(awaits),
        follows_seen_(follows) {}

  RankUnits Run() {
    out_.first = static_cast<uint32_t>(g_.units.size());
    FindLaunches();
    FindBlockingCalls();
    AddHostUnits();
    AddDeviceUnits();
    out_.end = static_cast<uint32_t>(g_.units.size());
    ChainHost();
    ChainDevice();
    BlockHost();
    return out_;
  }

 private:
  double At(HostTime t) const {
    return static_cast<double>((in_.clock.ToJob(rank_.host, t) - g_.origin).ns());
  }
  double CallStart(uint32_t call) const { return At(rank_.api_calls[call].start); }

  // ---- units

  void FindLaunches() {
    call_of_.reserve(rank_.activities.size());
    launches_.assign(rank_.api_calls.size(), 0);
    for (const DeviceActivity& a : rank_.activities) {
      call_of_.push_back(calls_.Of(a.correlation));
      if (call_of_.back() != kNone) launches_[call_of_.back()] = 1;
    }
  }

  // Finds the calls that block for device work, from the synchronisation records.
  void FindBlockingCalls() {
    for (uint32_t i = 0; i < rank_.syncs.size(); ++i) {
      const capture::Sync& s = rank_.syncs[i];
      if (s.type == SyncType::kStreamWaitEvent) stream_waits_.push_back(At(s.start));
      if (s.type != SyncType::kStream && s.type != SyncType::kContext && s.type != SyncType::kEvent) continue;
      const uint32_t call = calls_.Of(s.correlation);
      if (call == kNone) continue;
      sync_of_call_.emplace(call, i);
      launches_[call] = 2;
    }
  }

  void AddHostUnits() {
    unit_of_call_.assign(rank_.api_calls.size(), kNone);
    int32_t step = kBeforeSteps;
    for (uint32_t i = 0; i < rank_.api_calls.size(); ++i) {
      const ApiCall& call = rank_.api_calls[i];
      const CallRole role = names_.Of(call.name);
      if (role == CallRole::kStreamWait) stream_waits_.push_back(At(call.start));
      const bool blocks = role == CallRole::kSynchronizes || launches_[i] == 2;
      if (launches_[i] == 0 && !blocks) continue;
      step = StepAt(call.start, step);
      unit_of_call_[i] =
          Add(step, i, blocks ? UnitKind::kHostWait : UnitKind::kHostCall, call.start, call.end);
    }
    if (!std::is_sorted(stream_waits_.begin(), stream_waits_.end()))
      std::sort(stream_waits_.begin(), stream_waits_.end());
    out_.first_device = static_cast<uint32_t>(g_.units.size());
  }

  // Calls are ordered by start, so the step only increases.
  int32_t StepAt(HostTime t, int32_t step) const {
    if (!in_.steps.found()) return 0;
    const auto count = static_cast<int32_t>(steps_.steps.size());
    if (step == kAfterSteps) return step;
    while (step + 1 < count && steps_.steps[static_cast<size_t>(step + 1)].host.start <= t) ++step;
    if (step + 1 == count && count > 0 && t >= steps_.steps.back().host.end) return kAfterSteps;
    return step;
  }

  void AddDeviceUnits() {
    stream_of_.reserve(rank_.activities.size());
    for (uint32_t i = 0; i < rank_.activities.size(); ++i) {
      const DeviceActivity& a = rank_.activities[i];
      const UnitKind kind = a.type() == capture::WorkType::kMemory          ? UnitKind::kCopy
                            : a.type() == capture::WorkType::kCommunication ? UnitKind::kTransfer
                                                                            : UnitKind::kKernel;
      const uint32_t unit = Add(steps_.of_activity[i], i, kind, a.start, std::max(a.start, a.end));
      if (kind == UnitKind::kTransfer && a.collective < rank_.collectives.size())
        g_.units.back().instance = InstanceOf(i);
      stream_of_.push_back(
          streams_.Append(a.stream, unit, call_of_[i] == kNone ? kNever : CallStart(call_of_[i])));
    }
  }

  // The usable instance of a communication kernel, or kNone. A kernel of several messages ends together with
  // the kernel on the other side of its last message, so that one has the closest end.
  uint32_t InstanceOf(uint32_t activity) const {
    const auto& rows = rank_.collectives;
    uint32_t found = kNone;
    double closest = std::numeric_limits<double>::infinity();
    uint32_t row = rank_.activities[activity].collective;
    while (row > 0 && rows[row - 1].activity == activity) --row;
    for (; row < rows.size() && rows[row].activity == activity; ++row) {
      const uint32_t n = in_.matches.instance_of[rank_index_][row];
      if (n == kNone || !in_.matches.instances[n].usable) continue;
      const double apart = MessageEndsApart(in_.matches.instances[n], activity);
      if (found != kNone && apart >= closest) continue;
      found = n;
      closest = apart;
    }
    return found;
  }

  // Infinite if the instance is not a message between two ranks.
  double MessageEndsApart(const capture::Instance& instance, uint32_t activity) const {
    if (instance.members.size() != 2) return std::numeric_limits<double>::infinity();
    const capture::Member& m = instance.members[instance.members[0].rank_index == rank_index_ ? 1 : 0];
    const capture::RankData& other = in_.capture.ranks[m.rank_index];
    const HostTime end = other.activities[other.collectives[m.collective].activity].end;
    return std::abs(static_cast<double>((in_.clock.ToJob(other.host, end) - g_.origin).ns()) -
                    At(rank_.activities[activity].end));
  }

  uint32_t Add(int32_t step, uint32_t source, UnitKind kind, HostTime start, HostTime end) {
    g_.units.push_back({rank_index_, step, source, kNone, kind, false});
    g_.start.push_back(At(start));
    g_.end.push_back(At(end));
    return static_cast<uint32_t>(g_.units.size()) - 1;
  }

  // ---- edges between host calls

  // A call follows the last call of its own thread. Threads of one process hand work to each other, so it
  // also follows the call of the process that returned last.
  void ChainHost() {
    std::vector<uint32_t> by_end;
    by_end.reserve(out_.first_device - out_.first);
    for (uint32_t u = out_.first; u < out_.first_device; ++u) by_end.push_back(u);
    const auto ends_earlier = [&](uint32_t a, uint32_t b) { return g_.end[a] < g_.end[b]; };
    if (!std::is_sorted(by_end.begin(), by_end.end(), ends_earlier))
      std::stable_sort(by_end.begin(), by_end.end(), ends_earlier);
    absl::flat_hash_map<ThreadId, uint32_t> last_of_thread;
    ThreadId thread_now;
    uint32_t own = kNone;
    size_t returned = 0;
    for (uint32_t u = out_.first; u < out_.first_device; ++u) {
      while (returned < by_end.size() && g_.end[by_end[returned]] <= g_.start[u]) ++returned;
      const ThreadId thread = rank_.api_calls[g_.units[u].source].thread;
      if (u == out_.first || thread != thread_now) {
        if (u != out_.first) last_of_thread[thread_now] = own;
        const auto known = last_of_thread.find(thread);
        own = known == last_of_thread.end() ? kNone : known->second;
        thread_now = thread;
      }
      const uint32_t any = returned > 0 ? by_end[returned - 1] : kNone;
      // A driver call inside a runtime call starts before that one ends.
      if (own != kNone) AddStart(g_.end[own] > g_.start[u] ? StartOf(own) : EndOf(own));
      // A call of length zero may come after itself, or after its successor, in the order of ends.
      if (any != kNone && any != own && any < u) AddStart(EndOf(any));
      own = u;
      CloseUnit();
    }
  }

  // ---- edges onto the device

  void ChainDevice() {
    CollectEventEdges();
    if (const auto dispatch = streams_.ShortGap(g_)) {
      follows_ = std::max(kFollowsNs, kFollowsGaps * *dispatch);
      explained_ = std::max(kExplainedNs, kExplainedGaps * *dispatch);
    }
    std::vector<uint32_t> done(streams_.size(), 0);  // operations of the stream that have started so far
    size_t event_edge = 0;
    for (uint32_t i = 0; i < rank_.activities.size(); ++i) {
      const uint32_t unit = out_.first_device + i;
      const uint32_t stream = stream_of_[i];
      const double start = g_.start[unit];
      double known = kNever, previous_launch = kNever, launch = kNever;
      if (done[stream] > 0) {
        const uint32_t previous = streams_[stream].units[done[stream] - 1];
        previous_launch = streams_[stream].launched[done[stream] - 1];
        known = g_.end[previous];
        // If operations of one stream overlap, only the order of their starts is kept.
        const bool overlap = known > start + kRoundingNs;
        g_.cut_edges += overlap ? 1 : 0;
        AddStart(overlap ? StartOf(previous) : EndOf(previous));
      }
      if (call_of_[i] != kNone) {
        const uint32_t call_unit = unit_of_call_[call_of_[i]];
        launch = g_.start[call_unit];
        if (launch > start + kTimersNs) {
          ++g_.cut_edges;
        } else {
          AddStart(StartOf(call_unit));
          known = std::max(known, launch);
        }
      }
      for (; event_edge < event_edges_.size() && event_edges_[event_edge].unit == unit; ++event_edge) {
        const NodeRef from = event_edges_[event_edge].from;
        if (g_.end[UnitOf(from)] > start + kRoundingNs) {
          ++g_.cut_edges;
        } else {
          AddStart(from);
          known = std::max(known, g_.end[UnitOf(from)]);
        }
      }
      if (start - known > explained_) InferFollowing(unit, stream, known, previous_launch, launch, done);
      if (IsDownload(rank_.activities[i])) downloads_.push_back(unit);
      ++done[stream];
      CloseUnit();
    }
  }

  bool IsDownload(const DeviceActivity& a) const {
    return a.kind == ActivityKind::kMemcpy && a.detail < rank_.copy_details.size() &&
           rank_.copy_details[a.detail].copy_kind == kDeviceToHost;
  }

  // The last copy to the host that had ended by this time, or kNone.
  uint32_t LastDownload(double by) const {
    for (size_t i = downloads_.size(); i > 0; --i) {
      if (g_.end[downloads_[i - 1]] <= by) return downloads_[i - 1];
    }
    return kNone;
  }

  // Infers a predecessor for a start that no record explains. It is the operation of another stream that
  // ended just before, if the host issued a stream wait between this launch and the previous one. On a rank
  // without host records whose device was idle, it is the operation that ended last. The idle time after it
  // belongs to the host. If that device was busy, it is the last copy to the host, because hosts wait for
  // such copies.
  void InferFollowing(uint32_t unit, uint32_t stream, double known, double previous_launch, double launch,
                      const std::vector<uint32_t>& done) {
    const double start = g_.start[unit];
    if (!stream_waits_.empty() && launch != kNever) {
      const auto wait = std::upper_bound(stream_waits_.begin(), stream_waits_.end(), previous_launch);
      if (wait == stream_waits_.end() || *wait > launch) return;
    }
    // Jobs that time their own operations record an end after the next operation has begun.
    const double overlap = rank_.api_calls.empty() ? follows_ : kRoundingNs;
    uint32_t latest = kNone;
    const bool silent = out_.first_device == out_.first;
    bool idle = silent;
    for (uint32_t s = 0; s < streams_.size(); ++s) {
      if (s == stream) continue;
      idle = idle && (done[s] == 0 || g_.end[streams_[s].units[done[s] - 1]] <= start + kRoundingNs);
      for (uint32_t back = 1; back <= 2 && back <= done[s]; ++back) {
        const uint32_t other = streams_[s].units[done[s] - back];
        if (g_.end[other] > start + overlap) continue;
        if (latest == kNone || g_.end[other] > g_.end[latest]) latest = other;
        break;
      }
    }
    if (silent && !idle && (latest == kNone || start - g_.end[latest] > follows_))
      latest = LastDownload(start + kRoundingNs);
    if (latest == kNone || g_.end[latest] <= known || !(silent || start - g_.end[latest] <= follows_)) return;
    AddStart(EndOf(latest));
    if (start - g_.end[latest] <= follows_) follows_seen_.push_back({latest, unit});
  }

  void CollectEventEdges() {
    for (const capture::EventRecord& r : rank_.event_records) {
      const uint32_t call = calls_.Of(r.correlation);
      if (call != kNone) events_.Add(r.event, CallStart(call), r.stream);
    }
    events_.Sort();
    if (events_.empty()) return;
    for (const capture::Sync& s : rank_.syncs) {
      if (s.type != SyncType::kStreamWaitEvent) continue;
      const uint32_t call = calls_.Of(s.correlation);
      const double at = call == kNone ? At(s.start) : CallStart(call);
      const uint32_t before = events_.RecordedBefore(s.event, at, streams_);
      const uint32_t next =
          before == kNone ? kNone : streams_.FirstLaunchedAfter(streams_.Find(s.stream), at);
      if (next != kNone) event_edges_.push_back({EndOf(before), next});
    }
    std::stable_sort(event_edges_.begin(), event_edges_.end(),
                     [](const AwaitEdge& a, const AwaitEdge& b) { return a.unit < b.unit; });
  }

  // ---- edges from the device back to the host

  void BlockHost() {
    for (uint32_t u = out_.first; u < out_.first_device; ++u) {
      if (g_.units[u].kind == UnitKind::kHostWait) BlockFor(u);
    }
    // A call may have waited for its copy if the copy ended before the call returned.
    for (uint32_t i = 0; i < rank_.activities.size(); ++i) {
      if (rank_.activities[i].kind != ActivityKind::kMemcpy || call_of_[i] == kNone) continue;
      if (names_.Of(rank_.api_calls[call_of_[i]].name) != CallRole::kCopies) continue;
      const uint32_t call = unit_of_call_[call_of_[i]];
      const uint32_t copy = out_.first_device + i;
      if (g_.end[copy] > g_.end[call] + kRoundingNs || g_.end[copy] <= g_.start[call]) continue;
      awaits_.push_back({EndOf(copy), call});
    }
    AwaitRoomInQueue();
  }

  // A launch that found the device's queue full waited for work to end.
  void AwaitRoomInQueue() {
    std::vector<QueuedWork> work;
    work.reserve(rank_.activities.size());
    for (uint32_t i = 0; i < rank_.activities.size(); ++i) {
      const bool known = call_of_[i] != kNone;
      work.push_back({known ? g_.start[unit_of_call_[call_of_[i]]] : kNever, g_.end[out_.first_device + i]});
    }
    std::vector<LaunchCall> launches;
    std::vector<uint32_t> units;
    for (uint32_t u = out_.first; u < out_.first_device; ++u) {
      if (g_.units[u].kind != UnitKind::kHostCall) continue;
      launches.push_back({g_.start[u], g_.end[u]});
      units.push_back(u);
    }
    const std::vector<BlockedLaunch> blocked = FindBlockedLaunches(launches, work);
    for (const BlockedLaunch& b : blocked)
      awaits_.push_back({EndOf(out_.first_device + b.work), units[b.launch]});
  }

  void BlockFor(uint32_t unit) {
    const auto known = sync_of_call_.find(g_.units[unit].source);
    const capture::Sync* sync = known == sync_of_call_.end() ? nullptr : &rank_.syncs[known->second];
    if (sync != nullptr && sync->type == SyncType::kStream && streams_.Find(sync->stream) != kNone) {
      const uint32_t stream = streams_.Find(sync->stream);
      Await(stream, streams_.LastLaunchedBy(stream, g_.start[unit]), unit);
    } else if (sync != nullptr && sync->type == SyncType::kContext) {
      for (uint32_t s = 0; s < streams_.size(); ++s)
        Await(s, streams_.LastLaunchedBy(s, g_.start[unit]), unit);
    } else if (sync != nullptr && sync->type == SyncType::kEvent && !events_.empty()) {
      const uint32_t awaited = events_.RecordedBefore(sync->event, g_.start[unit], streams_);
      if (awaited != kNone) Await(stream_of_[awaited - out_.first_device], awaited, unit);
    } else {
      AwaitWhatEndedLast(unit);
    }
  }

  // The call waits for this operation of a stream. If the operation ended too late, because another thread
  // launched it in between, the call waits for the last earlier one that ended in time. An unexplained wait
  // would count as the host's own time.
  void Await(uint32_t stream, uint32_t device_unit, uint32_t unit) {
    if (device_unit == kNone) return;
    if (g_.end[device_unit] <= g_.end[unit] + kTimersNs) {
      awaits_.push_back({EndOf(device_unit), unit});
      return;
    }
    ++g_.cut_edges;
    const uint32_t before = streams_.LastEndedBy(stream, device_unit, g_.end[unit] + kTimersNs, g_);
    if (before != kNone && g_.end[before] > g_.start[unit]) awaits_.push_back({EndOf(before), unit});
  }

  // No record says what the call waited for. Take the work that ended last while the call blocked.
  void AwaitWhatEndedLast(uint32_t unit) {
    uint32_t latest = kNone;
    for (const StreamOps& s : streams_.all()) {
      auto after =
          std::upper_bound(s.launched.begin(), s.launched.end(), g_.start[unit]) - s.launched.begin();
      for (; after > 0; --after) {
        const uint32_t candidate = s.units[static_cast<size_t>(after) - 1];
        if (g_.end[candidate] <= g_.start[unit]) break;
        if (g_.end[candidate] > g_.end[unit] + kRoundingNs) continue;
        if (latest == kNone || g_.end[candidate] > g_.end[latest]) latest = candidate;
        break;
      }
    }
    if (latest != kNone) awaits_.push_back({EndOf(latest), unit});
  }

  // Predecessors are appended unit by unit, in the order of units.
  void AddStart(NodeRef from) { g_.start_preds.push_back(from); }
  void CloseUnit() { g_.start_begin.push_back(g_.start_preds.size()); }

  const GraphInput& in_;
  const capture::RankData& rank_;
  const RankSteps& steps_;
  const CallIndex& calls_;
  const CallNames& names_;
  uint32_t rank_index_;
  Graph& g_;
  std::vector<AwaitEdge>& awaits_;
  std::vector<Follow>& follows_seen_;
  RankUnits out_;
  std::vector<uint32_t> call_of_;       // by activity: its launch, or kNone
  std::vector<uint32_t> stream_of_;     // by activity: index into streams_
  std::vector<uint8_t> launches_;       // by call: 1 issued device work, 2 blocks
  std::vector<uint32_t> unit_of_call_;  // by call; kNone: not a unit
  absl::flat_hash_map<uint32_t, uint32_t> sync_of_call_;
  std::vector<double> stream_waits_;  // sorted
  DeviceStreams streams_;
  std::vector<uint32_t> downloads_;  // copies to the host so far
  double follows_ = kFollowsNs, explained_ = kExplainedNs;
  EventRecords events_;
  std::vector<AwaitEdge> event_edges_;  // sorted by unit; here the start of `unit` waits
};

}  // namespace

RankGraph BuildRank(const GraphInput& input, uint32_t rank_index, JobTime origin) {
  RankGraph part;
  part.graph.origin = origin;
  part.graph.start_begin.push_back(0);
  part.units = Builder(input, rank_index, part.graph, part.awaits, part.follows).Run();
  return part;
}

}  // namespace lockstep::analysis
