#include "aggregator/analysis/rank_graph.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace lockstep::analysis {
namespace {

using store::ActivityKind;
using store::ApiCall;
using store::DeviceActivity;
using store::kNone;
using store::SyncType;

// A device operation that starts this soon after another stream's ended, with a stream wait issued between, followed it.
constexpr Nanos kFollows = Nanos::Micros(10);
// Below this a start needs no further explanation.
constexpr Nanos kExplained = Nanos(1500);

struct StreamOps {
  std::vector<uint32_t> units;     // in launch order, which is start order
  std::vector<HostTime> launched;  // Min() where unknown
};

class Builder {
 public:
  Builder(const GraphInput& input, uint32_t rank_index, uint32_t first_unit, Nanos slack)
      : in_(input),
        rank_(input.capture.ranks[rank_index]),
        steps_(input.steps.ranks[rank_index]),
        calls_(input.calls[rank_index]),
        names_(*input.names),
        rank_index_(rank_index),
        slack_(slack) {
    out_.first_unit = first_unit;
  }

  RankGraph Run() {
    FindBlockingCalls();
    AddHostUnits();
    AddDeviceUnits();
    ChainHost();
    ChainDevice();
    BlockHost();
    const auto by_unit = [](const Edge& a, const Edge& b) { return a.unit < b.unit; };
    if (!std::is_sorted(out_.start_edges.begin(), out_.start_edges.end(), by_unit)) {
      std::stable_sort(out_.start_edges.begin(), out_.start_edges.end(), by_unit);
    }
    std::stable_sort(out_.await_edges.begin(), out_.await_edges.end(), by_unit);
    return std::move(out_);
  }

 private:
  uint32_t Local(uint32_t unit) const { return unit - out_.first_unit; }
  HostTime Start(uint32_t unit) const { return out_.start[Local(unit)]; }
  HostTime End(uint32_t unit) const { return out_.end[Local(unit)]; }

  // ---- units

  // What each call blocks for, as far as synchronisation records say.
  void FindBlockingCalls() {
    for (uint32_t i = 0; i < rank_.syncs.size(); ++i) {
      const store::Sync& s = rank_.syncs[i];
      if (s.type != SyncType::kStream && s.type != SyncType::kContext && s.type != SyncType::kEvent) continue;
      const uint32_t call = calls_.Of(s.correlation);
      if (call != kNone) sync_of_call_.emplace(call, i);
    }
  }

  void AddHostUnits() {
    launches_.assign(rank_.api_calls.size(), 0);
    for (const DeviceActivity& a : rank_.activities) {
      const uint32_t call = calls_.Of(a.correlation);
      if (call != kNone) launches_[call] = 1;
    }
    unit_of_call_.assign(rank_.api_calls.size(), kNone);
    int32_t step = kBeforeSteps;
    for (uint32_t i = 0; i < rank_.api_calls.size(); ++i) {
      const ApiCall& call = rank_.api_calls[i];
      const bool blocks = names_.Of(call.name) == CallRole::kSynchronizes || sync_of_call_.contains(i);
      if (names_.Of(call.name) == CallRole::kStreamWait) stream_waits_.push_back(call.start);
      if (!launches_[i] && !blocks) continue;
      step = StepAt(call.start, step);
      unit_of_call_[i] = Add(step, i, blocks ? UnitKind::kHostWait : UnitKind::kHostCall, call.start, call.end);
    }
    out_.first_device = out_.first_unit + static_cast<uint32_t>(out_.units.size());
  }

  // Calls come in start order, so the step only moves on.
  int32_t StepAt(HostTime t, int32_t step) const {
    if (!in_.steps.from_ranges) return 0;
    const auto count = static_cast<int32_t>(steps_.steps.size());
    if (step == kAfterSteps) return step;
    while (step + 1 < count && steps_.steps[static_cast<size_t>(step + 1)].host.start <= t) ++step;
    if (step + 1 == count && count > 0 && t >= steps_.steps.back().host.end) return kAfterSteps;
    return step;
  }

  void AddDeviceUnits() {
    for (uint32_t i = 0; i < rank_.activities.size(); ++i) {
      const DeviceActivity& a = rank_.activities[i];
      const UnitKind kind = a.kind != ActivityKind::kKernel ? UnitKind::kCopy
                            : a.communication               ? UnitKind::kTransfer
                                                            : UnitKind::kKernel;
      const uint32_t unit = Add(steps_.of_activity[i], i, kind, a.start, std::max(a.start, a.end));
      if (kind == UnitKind::kTransfer && a.collective < rank_.collectives.size()) {
        const uint32_t n = in_.matches.instance_of[rank_index_][a.collective];
        if (n != kNone && in_.matches.instances[n].complete) out_.units.back().instance = n;
      }
      const uint32_t call = calls_.Of(a.correlation);
      StreamOps& stream = StreamAt(a.stream);
      stream.units.push_back(unit);
      stream.launched.push_back(call == kNone ? HostTime::Min() : rank_.api_calls[call].start);
    }
    // A record without a launch was issued no earlier than the one before it on its stream.
    for (StreamOps& s : streams_) {
      for (size_t i = 1; i < s.launched.size(); ++i) s.launched[i] = std::max(s.launched[i], s.launched[i - 1]);
    }
  }

  uint32_t Add(int32_t step, uint32_t source, UnitKind kind, HostTime start, HostTime end) {
    out_.units.push_back({rank_index_, step, source, kNone, kind, false});
    out_.start.push_back(start);
    out_.end.push_back(end);
    return out_.first_unit + static_cast<uint32_t>(out_.units.size()) - 1;
  }

  StreamOps& StreamAt(StreamId id) {
    const auto [it, fresh] = stream_index_.try_emplace(id, static_cast<uint32_t>(streams_.size()));
    if (fresh) streams_.emplace_back();
    return streams_[it->second];
  }

  // ---- edges between host calls

  // A call follows the last one of its own thread and, since threads of one process hand work to each other, whichever call
  // of the process had returned last.
  void ChainHost() {
    const uint32_t count = Local(out_.first_device);
    std::vector<uint32_t> by_end(count);
    for (uint32_t i = 0; i < count; ++i) by_end[i] = i;
    const auto ends_earlier = [&](uint32_t a, uint32_t b) { return out_.end[a] < out_.end[b]; };
    if (!std::is_sorted(by_end.begin(), by_end.end(), ends_earlier)) std::stable_sort(by_end.begin(), by_end.end(), ends_earlier);
    absl::flat_hash_map<ThreadId, uint32_t> last_of_thread;
    ThreadId thread_now;
    uint32_t* last_now = nullptr;
    size_t returned = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t unit = out_.first_unit + i;
      while (returned < by_end.size() && out_.end[by_end[returned]] <= out_.start[i]) ++returned;
      const ThreadId thread = rank_.api_calls[out_.units[i].source].thread;
      if (last_now == nullptr || !(thread == thread_now)) {
        last_now = &last_of_thread.try_emplace(thread, kNone).first->second;
        thread_now = thread;
      }
      const uint32_t own = *last_now;
      const uint32_t any = returned > 0 ? by_end[returned - 1] : kNone;
      if (own != kNone && own != i) {
        const bool nested = out_.end[own] > out_.start[i];
        AddStart(nested ? StartOf(out_.first_unit + own) : EndOf(out_.first_unit + own), unit);
      }
      if (any != kNone && any != own && any != i) AddStart(EndOf(out_.first_unit + any), unit);
      *last_now = i;
    }
  }

  // ---- edges onto the device

  void ChainDevice() {
    CollectEventEdges();
    const bool infer = rank_.event_records.empty();
    std::vector<uint32_t> done(streams_.size(), 0);  // operations of the stream that started so far
    size_t event_edge = 0;
    for (uint32_t i = 0; i < rank_.activities.size(); ++i) {
      const DeviceActivity& a = rank_.activities[i];
      const uint32_t unit = out_.first_device + i;
      const uint32_t stream = stream_index_.find(a.stream)->second;
      HostTime known = HostTime::Min();
      HostTime previous_launch = HostTime::Min();
      if (done[stream] > 0) {
        const uint32_t previous = streams_[stream].units[done[stream] - 1];
        previous_launch = streams_[stream].launched[done[stream] - 1];
        known = End(previous);
        if (known > a.start + slack_) {
          ++out_.cut_edges;  // they overlap on one stream: only the order of their starts is kept
          AddStart(StartOf(previous), unit);
        } else {
          AddStart(EndOf(previous), unit);
        }
      }
      const uint32_t call = calls_.Of(a.correlation);
      HostTime launch = HostTime::Min();
      if (call != kNone) {
        launch = rank_.api_calls[call].start;
        if (launch > a.start + slack_) {
          ++out_.cut_edges;
        } else {
          AddStart(StartOf(unit_of_call_[call]), unit);
          known = std::max(known, launch);
        }
      }
      for (; event_edge < event_edges_.size() && event_edges_[event_edge].unit == unit; ++event_edge) {
        const NodeRef from = event_edges_[event_edge].from;
        if (End(UnitOf(from)) > a.start + slack_) {
          ++out_.cut_edges;
        } else {
          AddStart(from, unit);
        }
      }
      if (infer && a.start - std::max(known, a.start - kFollows) > kExplained) {
        InferFollowing(unit, stream, a.start, known, previous_launch, launch, done);
      }
      ++done[stream];
    }
  }

  // Without event records: the operation of another stream that ended just before, if the host made the stream wait for
  // something between this launch and the one before.
  void InferFollowing(uint32_t unit, uint32_t stream, HostTime start, HostTime known, HostTime previous_launch,
                      HostTime launch, const std::vector<uint32_t>& done) {
    if (!stream_waits_.empty() && launch != HostTime::Min()) {
      const auto wait = std::upper_bound(stream_waits_.begin(), stream_waits_.end(), previous_launch);
      if (wait == stream_waits_.end() || *wait > launch) return;
    }
    uint32_t latest = kNone;
    for (uint32_t s = 0; s < streams_.size(); ++s) {
      if (s == stream) continue;
      for (uint32_t back = 1; back <= 2 && back <= done[s]; ++back) {
        const uint32_t other = streams_[s].units[done[s] - back];
        if (End(other) > start + slack_) continue;
        if (latest == kNone || End(other) > End(latest)) latest = other;
        break;
      }
    }
    if (latest != kNone && End(latest) > known && start - End(latest) <= kFollows) AddStart(EndOf(latest), unit);
  }

  struct Recorded {
    HostTime at;
    StreamId stream;
  };

  void CollectEventEdges() {
    for (const store::EventRecord& r : rank_.event_records) {
      const uint32_t call = calls_.Of(r.correlation);
      if (call != kNone) records_[r.event].push_back({rank_.api_calls[call].start, r.stream});
    }
    for (auto& [event, list] : records_) {
      std::stable_sort(list.begin(), list.end(), [](const Recorded& a, const Recorded& b) { return a.at < b.at; });
    }
    if (records_.empty()) return;
    for (const store::Sync& s : rank_.syncs) {
      if (s.type != SyncType::kStreamWaitEvent) continue;
      const uint32_t call = calls_.Of(s.correlation);
      const HostTime at = call == kNone ? s.start : rank_.api_calls[call].start;
      const uint32_t before = RecordedBefore(s.event, at);
      const auto stream = stream_index_.find(s.stream);
      if (before == kNone || stream == stream_index_.end()) continue;
      const StreamOps& ops = streams_[stream->second];
      const auto next = std::upper_bound(ops.launched.begin(), ops.launched.end(), at);
      if (next == ops.launched.end()) continue;
      event_edges_.push_back({EndOf(before), ops.units[static_cast<size_t>(next - ops.launched.begin())]});
    }
    std::stable_sort(event_edges_.begin(), event_edges_.end(), [](const Edge& a, const Edge& b) { return a.unit < b.unit; });
  }

  // The last device operation that `event` stood for at a moment of the host.
  uint32_t RecordedBefore(uint32_t event, HostTime at) const {
    const auto list = records_.find(event);
    if (list == records_.end()) return kNone;
    const auto after = std::upper_bound(list->second.begin(), list->second.end(), at,
                                        [](HostTime t, const Recorded& r) { return t < r.at; });
    if (after == list->second.begin()) return kNone;
    const auto stream = stream_index_.find((after - 1)->stream);
    return stream == stream_index_.end() ? kNone : LastLaunched(streams_[stream->second], (after - 1)->at);
  }

  static uint32_t LastLaunched(const StreamOps& ops, HostTime before) {
    const auto after = std::upper_bound(ops.launched.begin(), ops.launched.end(), before);
    return after == ops.launched.begin() ? kNone : ops.units[static_cast<size_t>(after - ops.launched.begin()) - 1];
  }

  // ---- edges from the device back to the host

  void BlockHost() {
    for (uint32_t i = 0; i < Local(out_.first_device); ++i) {
      const uint32_t call = out_.units[i].source;
      const uint32_t unit = out_.first_unit + i;
      if (out_.units[i].kind == UnitKind::kHostWait) {
        BlockFor(unit, rank_.api_calls[call], call);
      }
    }
    // A copy that had ended before its call returned may have been what the call waited for.
    for (uint32_t i = 0; i < rank_.activities.size(); ++i) {
      const DeviceActivity& a = rank_.activities[i];
      if (a.kind != ActivityKind::kMemcpy) continue;
      const uint32_t call = calls_.Of(a.correlation);
      if (call == kNone || names_.Of(rank_.api_calls[call].name) != CallRole::kCopies) continue;
      if (a.end > rank_.api_calls[call].end + slack_ || a.end <= rank_.api_calls[call].start) continue;
      out_.await_edges.push_back({EndOf(out_.first_device + i), unit_of_call_[call]});
    }
  }

  void BlockFor(uint32_t unit, const ApiCall& call, uint32_t call_index) {
    const auto known = sync_of_call_.find(call_index);
    const store::Sync* sync = known == sync_of_call_.end() ? nullptr : &rank_.syncs[known->second];
    if (sync != nullptr && sync->type == SyncType::kStream && stream_index_.contains(sync->stream)) {
      Await(LastLaunched(streams_[stream_index_.find(sync->stream)->second], call.start), unit, call);
    } else if (sync != nullptr && sync->type == SyncType::kContext) {
      for (const StreamOps& s : streams_) Await(LastLaunched(s, call.start), unit, call);
    } else if (sync != nullptr && sync->type == SyncType::kEvent && !records_.empty()) {
      Await(RecordedBefore(sync->event, call.start), unit, call);
    } else {
      AwaitWhatEndedLast(unit, call);
    }
  }

  void Await(uint32_t device_unit, uint32_t unit, const ApiCall& call) {
    if (device_unit == kNone) return;
    if (End(device_unit) > call.end + slack_) {
      ++out_.cut_edges;
    } else {
      out_.await_edges.push_back({EndOf(device_unit), unit});
    }
  }

  // Nothing says what the call waited for: the last of what ended while it blocked.
  void AwaitWhatEndedLast(uint32_t unit, const ApiCall& call) {
    uint32_t latest = kNone;
    for (const StreamOps& s : streams_) {
      auto after = std::upper_bound(s.launched.begin(), s.launched.end(), call.start) - s.launched.begin();
      for (; after > 0; --after) {
        const uint32_t candidate = s.units[static_cast<size_t>(after) - 1];
        if (End(candidate) <= call.start) break;
        if (End(candidate) > call.end + slack_) continue;
        if (latest == kNone || End(candidate) > End(latest)) latest = candidate;
        break;
      }
    }
    if (latest != kNone) out_.await_edges.push_back({EndOf(latest), unit});
  }

  void AddStart(NodeRef from, uint32_t unit) { out_.start_edges.push_back({from, unit}); }

  const GraphInput& in_;
  const store::RankData& rank_;
  const RankSteps& steps_;
  const CallIndex& calls_;
  const CallNames& names_;
  uint32_t rank_index_;
  Nanos slack_;
  RankGraph out_;
  absl::flat_hash_map<uint32_t, uint32_t> sync_of_call_;
  std::vector<uint8_t> launches_;       // by call
  std::vector<uint32_t> unit_of_call_;  // by call, kNone where it is no unit
  std::vector<HostTime> stream_waits_;  // sorted
  absl::flat_hash_map<StreamId, uint32_t> stream_index_;
  std::vector<StreamOps> streams_;
  absl::flat_hash_map<uint32_t, std::vector<Recorded>> records_;
  std::vector<Edge> event_edges_;  // sorted by unit
};

}  // namespace

RankGraph BuildRankGraph(const GraphInput& input, uint32_t rank_index, uint32_t first_unit, Nanos slack) {
  return Builder(input, rank_index, first_unit, slack).Run();
}

}  // namespace lockstep::analysis
