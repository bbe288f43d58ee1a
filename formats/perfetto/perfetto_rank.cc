#include "formats/perfetto/perfetto_rank.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "analysis/time/device_load.h"
#include "analysis/time/utilization.h"
#include "formats/common/nested_lanes.h"
#include "formats/common/stream_lanes.h"

namespace lockstep::formats {
namespace {

using capture::ActivityKind;
using capture::Capture;
using capture::RankData;

// Ids of the flows from a launch to its activity. They are above those of collectives, which start at 1.
constexpr uint64_t kLaunchFlows = uint64_t{1} << 48;

// Values that order the tracks of a rank.
constexpr int32_t kStepsOrder = 0;
constexpr int32_t kCountersOrder = 1;
constexpr int32_t kStreamsOrder = 1000;
constexpr int32_t kThreadsOrder = 1000000;

// A counter has at most this many values over the window, at least this far apart.
constexpr size_t kCounterValues = 1000;
constexpr Nanos kLeastBetweenValues = Nanos::Micros(100);

class RankWriter {
 public:
  RankWriter(const Capture& capture, uint32_t index, const capture::Matches& matches,
             std::span<const uint32_t> last_ranks, const capture::ClockModel& clock, PerfettoPackets& out)
      : capture_(capture),
        index_(index),
        rank_(capture.ranks[index]),
        matches_(matches),
        last_ranks_(last_ranks),
        clock_(clock),
        out_(out) {}

  void Write() {
    out_.BeginSequence(index_ + 1);
    const std::string name = Title();
    process_ = out_.ProcessTrack(
        {.pid = static_cast<int32_t>(index_ + 1), .name = name, .sort_index = static_cast<int32_t>(index_)});
    for (const capture::DeviceActivity& a : rank_.activities) {
      if (a.correlation.value() != 0) launched_.insert(a.correlation);
    }
    WriteSteps();
    WriteCounters();
    WriteHost();
    WriteSyncs();
    WriteDevice();
  }

 private:
  JobTime At(HostTime t) const { return clock_.ToJob(rank_.host, t); }
  std::string_view Text(NameId id) const { return capture_.Text(id); }

  std::string Title() const {
    const std::string host =
        rank_.host < capture_.hosts.size() ? capture_.hosts[rank_.host].ShownName() : "?";
    std::string title =
        absl::StrCat("rank ", rank_.rank.value(), " · ", host, " · GPU ", rank_.device.value());
    if (!rank_.properties.name.empty()) absl::StrAppend(&title, " (", rank_.properties.name, ")");
    if (rank_.incarnation > 1) absl::StrAppend(&title, " · incarnation ", rank_.incarnation);
    return title;
  }

  void Closed(HostTime start, HostTime end, const Slice& slice, std::string_view text) {
    out_.BeginSlice(At(start), slice, text);
    out_.EndSlice(At(end), slice.track);
  }

  void WriteSteps() {
    std::vector<const capture::HostRange*> steps;
    for (const capture::HostRange& r : rank_.ranges) {
      if (r.kind == capture::RangeKind::kStep) steps.push_back(&r);
    }
    if (!steps.empty()) WriteNested(steps, "steps", kStepsOrder);
  }

  void WriteCounters() {
    HostTime first = HostTime::Max(), last;
    for (const capture::DeviceActivity& a : rank_.activities) {
      first = std::min(first, a.start);
      last = std::max(last, a.end);
    }
    if (first >= last) return;
    const Nanos width =
        std::max(kLeastBetweenValues, Nanos((last - first).ns() / static_cast<int64_t>(kCounterValues) + 1));
    const analysis::UtilizationSeries series = analysis::MeasureUtilization(rank_, width, kCounterValues + 1);
    WriteCounter("GPU busy", kCountersOrder, series, series.busy);
    WriteCounter("SM efficiency", kCountersOrder + 1, series, series.sm_efficiency);
    const std::vector<analysis::DeviceWork> work = analysis::DeviceWorkOf(rank_);
    for (auto& [stream, queue] : analysis::QueuesOf(work)) {
      WriteLevels(absl::StrCat("queued on stream ", stream.value()), "pieces of work", 1, kCountersOrder + 2,
                  std::move(queue.levels));
    }
    for (auto& [name, copies] : analysis::CopiesOf(rank_, work)) {
      const std::string kind(name == kNoName ? std::string_view("copies") : Text(name));
      WriteLevels(absl::StrCat("rate of ", kind), "GB/s", 1e-9, kCountersOrder + 3, std::move(copies.levels));
    }
  }

  void WriteLevels(const std::string& name, std::string_view unit, double scale, int32_t order,
                   std::vector<analysis::Level> levels) {
    if (levels.empty()) return;
    const TrackId track = out_.CounterTrack(process_, name, unit, order);
    for (const analysis::Level& level : analysis::Downsampled(std::move(levels), kCounterValues))
      out_.Count(At(level.at), track, level.value * scale);
  }

  void WriteCounter(std::string_view name, int32_t order, const analysis::UtilizationSeries& series,
                    const std::vector<double>& values) {
    if (values.empty()) return;
    const TrackId track = out_.CounterTrack(process_, name, "%", order);
    HostTime at = series.start;
    double shown = -1;
    for (const double value : values) {
      const double percent = std::min(100.0, 100 * value);
      if (percent != shown) out_.Count(At(at), track, percent);
      shown = percent;
      at = at + series.width;
    }
    out_.Count(At(at), track, 0);
  }

  // `rows` are sorted by start. A track is added with its first slice.
  void WriteNested(const std::vector<const capture::HostRange*>& rows, const std::string& name,
                   int32_t order) {
    NestedLanes lanes;
    std::vector<TrackId> tracks;
    const auto close = [&](size_t lane, HostTime end) { out_.EndSlice(At(end), tracks[lane]); };
    for (const capture::HostRange* r : rows) {
      const size_t lane = lanes.Place(r->start, r->end, close);
      while (tracks.size() <= lane)
        tracks.push_back(out_.ChildTrack(process_, LaneName(name, tracks.size()), order));
      out_.BeginSlice(At(r->start), {.track = tracks[lane], .name = r->name, .category = "range"},
                      Text(r->name));
    }
    lanes.CloseAll(close);
  }

  static std::string LaneName(const std::string& name, size_t lane) {
    return lane == 0 ? name : absl::StrCat(name, " (lane ", lane + 1, ")");
  }

  struct HostThread {
    NestedLanes lanes;
    std::vector<TrackId> tracks;
  };

  // Calls are inside ranges, so both share lanes, merged by start.
  void WriteHost() {
    std::map<ThreadId, HostThread> threads;
    size_t range = 0;
    for (const capture::ApiCall& call : rank_.api_calls) {
      for (; range < rank_.ranges.size() && rank_.ranges[range].start <= call.start; ++range)
        WriteRange(rank_.ranges[range], threads);
      const Flow launch{launched_.contains(call.correlation) ? LaunchFlow(call.correlation) : 0, false};
      const Annotation correlation{.name = "correlation", .text = "", .number = call.correlation.value()};
      const TrackId track = HostTrack(call.thread, call.start, call.end, threads);
      out_.BeginSlice(At(call.start),
                      {.track = track,
                       .name = call.name,
                       .category = call.driver ? "driver" : "runtime",
                       .flows = {&launch, 1},
                       .annotations = {&correlation, 1}},
                      call.name == kNoName ? std::string_view("call") : Text(call.name));
    }
    for (; range < rank_.ranges.size(); ++range) WriteRange(rank_.ranges[range], threads);
    for (auto& entry : threads) {
      HostThread& thread = entry.second;
      thread.lanes.CloseAll([&](size_t lane, HostTime end) { out_.EndSlice(At(end), thread.tracks[lane]); });
    }
  }

  void WriteRange(const capture::HostRange& r, std::map<ThreadId, HostThread>& threads) {
    if (r.kind == capture::RangeKind::kStep) return;
    const TrackId track = HostTrack(r.thread, r.start, r.end, threads);
    out_.BeginSlice(At(r.start), {.track = track, .name = r.name, .category = "range"}, Text(r.name));
  }

  TrackId HostTrack(ThreadId id, HostTime start, HostTime end, std::map<ThreadId, HostThread>& threads) {
    const auto [it, fresh] = threads.try_emplace(id);
    HostThread& thread = it->second;
    if (fresh) ++threads_;
    const size_t lane =
        thread.lanes.Place(start, end, [&](size_t l, HostTime e) { out_.EndSlice(At(e), thread.tracks[l]); });
    while (thread.tracks.size() <= lane) {
      const std::string name = LaneName(absl::StrCat("thread ", id.value()), thread.tracks.size());
      thread.tracks.push_back(out_.ChildTrack(process_, name, kThreadsOrder + threads_));
    }
    return thread.tracks[lane];
  }

  uint64_t LaunchFlow(CorrelationId correlation) const {
    return kLaunchFlows + (uint64_t{index_} << 32) + correlation.value();
  }

  void WriteSyncs() {
    constexpr std::string_view kNames[] = {"sync", "event sync", "stream waits for event", "stream sync",
                                           "context sync"};
    StreamLanes lanes;
    std::vector<TrackId> tracks;
    for (const capture::Sync& sync : rank_.syncs) {
      const uint32_t lane = lanes.Place(StreamId(), sync.start, sync.end);
      while (tracks.size() <= lane) {
        tracks.push_back(
            out_.ChildTrack(process_, LaneName("synchronisation", tracks.size()), kThreadsOrder));
      }
      const auto type = std::min<size_t>(static_cast<size_t>(sync.type), std::size(kNames) - 1);
      // Name ids of these texts follow those of the capture.
      const NameId name(static_cast<uint32_t>(capture_.strings.size() + type));
      Closed(sync.start, sync.end, {.track = tracks[lane], .name = name, .category = "sync"}, kNames[type]);
    }
  }

  std::string StreamName(StreamId stream) const {
    std::string name = absl::StrCat("stream ", stream.value());
    const auto found = std::find_if(rank_.streams.begin(), rank_.streams.end(),
                                    [&](const capture::DeviceStream& s) { return s.stream == stream; });
    if (found == rank_.streams.end()) return name;
    if (found->type == capture::StreamType::kDefault) absl::StrAppend(&name, " (default)");
    if (found->priority != 0) absl::StrAppend(&name, " (priority ", found->priority, ")");
    return name;
  }

  TrackId StreamTrack(StreamId stream, uint32_t lane) {
    const uint64_t key = uint64_t{lane} << 32 | stream.value();
    const auto [it, fresh] = stream_tracks_.try_emplace(key);
    if (fresh) {
      const std::string name = LaneName(StreamName(stream), lane);
      const auto order = static_cast<int32_t>(std::min<uint32_t>(stream.value(), 100000));
      it->second = out_.ChildTrack(process_, name, kStreamsOrder + order);
    }
    return it->second;
  }

  void WriteDevice() {
    StreamLanes lanes;
    for (const capture::DeviceActivity& a : rank_.activities) {
      Slice slice{.track = StreamTrack(a.stream, lanes.Place(a.stream, a.start, a.end)), .name = a.name};
      const std::array<Flow, 2> flows = {
          Flow{a.correlation.value() != 0 ? LaunchFlow(a.correlation) : 0, true}, CollectiveFlow(a)};
      slice.flows = flows;
      annotations_.clear();
      annotations_.push_back({.name = "correlation", .text = "", .number = a.correlation.value()});
      if (a.kind == ActivityKind::kKernel) {
        WriteKernel(a, slice);
      } else {
        WriteCopy(a, slice);
      }
    }
  }

  void WriteKernel(const capture::DeviceActivity& a, Slice& slice) {
    slice.category = a.communication ? "communication" : "kernel";
    if (a.detail < rank_.kernel_details.size()) {
      const capture::KernelDetail& d = rank_.kernel_details[a.detail];
      annotations_.push_back(
          {.name = "blocks", .text = "", .number = uint64_t{d.grid[0]} * d.grid[1] * d.grid[2]});
      annotations_.push_back({.name = "threads per block",
                              .text = "",
                              .number = uint64_t{d.block[0]} * d.block[1] * d.block[2]});
      if (d.graph != 0) annotations_.push_back({.name = "graph", .text = "", .number = d.graph});
    }
    if (a.collective < rank_.collectives.size()) AnnotateCollective(rank_.collectives[a.collective]);
    slice.annotations = annotations_;
    Closed(a.start, a.end, slice, a.name == kNoName ? std::string_view("kernel") : Text(a.name));
  }

  void AnnotateCollective(const capture::Collective& c) {
    annotations_.push_back({.name = "operation", .text = capture::CollectiveOpName(c.op)});
    if (c.group < capture_.groups.size())
      annotations_.push_back({.name = "group", .text = capture_.groups[c.group].name});
    if (c.bytes >= 0)
      annotations_.push_back({.name = "bytes", .text = "", .number = static_cast<uint64_t>(c.bytes)});
    if (c.sequence >= 0)
      annotations_.push_back({.name = "sequence", .text = "", .number = static_cast<uint64_t>(c.sequence)});
  }

  void WriteCopy(const capture::DeviceActivity& a, Slice& slice) {
    slice.category = a.communication                   ? "communication"
                     : a.kind == ActivityKind::kMemcpy ? "memcpy"
                                                       : "memset";
    const capture::CopyDetail detail =
        a.detail < rank_.copy_details.size() ? rank_.copy_details[a.detail] : capture::CopyDetail{};
    annotations_.push_back({.name = "bytes", .text = "", .number = detail.bytes});
    slice.annotations = annotations_;
    Closed(a.start, a.end, slice, Text(a.name));
  }

  Flow CollectiveFlow(const capture::DeviceActivity& a) const {
    if (last_ranks_.empty() || index_ >= matches_.instance_of.size() ||
        a.collective >= matches_.instance_of[index_].size())
      return {};
    const uint32_t instance = matches_.instance_of[index_][a.collective];
    if (instance >= matches_.instances.size() || matches_.instances[instance].members.size() < 2) return {};
    return {uint64_t{instance} + 1, last_ranks_[instance] == index_};
  }

  const Capture& capture_;
  const uint32_t index_;
  const RankData& rank_;
  const capture::Matches& matches_;
  const std::span<const uint32_t> last_ranks_;
  const capture::ClockModel& clock_;
  PerfettoPackets& out_;
  TrackId process_;
  int32_t threads_ = 0;
  absl::flat_hash_set<CorrelationId> launched_;
  absl::flat_hash_map<uint64_t, TrackId> stream_tracks_;
  std::vector<Annotation> annotations_;
};

}  // namespace

void WritePerfettoRank(const Capture& capture, uint32_t rank_index, const capture::Matches& matches,
                       std::span<const uint32_t> last_ranks, const capture::ClockModel& clock,
                       PerfettoPackets& out) {
  RankWriter(capture, rank_index, matches, last_ranks, clock, out).Write();
}

}  // namespace lockstep::formats
