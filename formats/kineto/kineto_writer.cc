#include "formats/kineto/kineto_writer.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "analysis/time/occupancy.h"
#include "base/json/json_text.h"
#include "formats/common/job_shift.h"
#include "formats/common/kineto_names.h"
#include "formats/common/stream_lanes.h"
#include "formats/kineto/kineto_header.h"
#include "formats/kineto/kineto_links.h"

namespace lockstep::formats {
namespace {

using capture::ActivityKind;
using capture::Capture;
using capture::RankData;

// Ranks share one base, the start of the hour. Readers keep microseconds in doubles, which are exact to the
// nanosecond within an hour of the base. From libkineto's base, the start of the quarter year, they are not,
// and consecutive steps would overlap.
constexpr int64_t kHourNs = int64_t{3600} * 1000000000;
// Offset of the track numbers of a stream's further lanes. It keeps them apart from stream numbers.
constexpr uint64_t kLaneStep = 10000000;
constexpr uint64_t kProgressEvery = 16384;
constexpr int64_t kGpuSortIndex = 5000000;

class KinetoWriter {
 public:
  KinetoWriter(const Capture& capture, uint32_t rank_index, const capture::ClockModel& clock, ByteSink& sink,
               const KinetoOptions& options)
      : capture_(capture),
        rank_index_(rank_index),
        rank_(capture.ranks[rank_index]),
        options_(options),
        clock_(clock),
        out_(sink),
        links_(capture, rank_),
        pid_(rank_.pid != 0 ? rank_.pid : 1000000 + rank_.rank.value()) {
    int64_t earliest = JobTime::Max().ns();
    for (const RankData& r : capture.ranks) {
      earliest = std::min(earliest, (r.window.start + JobShift(clock, r)).ns());
    }
    base_ = Nanos(earliest > 0 ? earliest / kHourNs * kHourNs : 0);
    shift_ = JobShift(clock, rank_) - base_;
  }

  absl::Status Write() {
    WriteKinetoHeader(capture_, rank_, clock_, base_, shift_ + base_, out_);
    Names();
    for (size_t i = 0; i < rank_.ranges.size(); ++i) {
      if (Abuts(i)) shortened_.insert({rank_.ranges[i].thread, rank_.ranges[i].end});
    }
    for (size_t i = 0; i < rank_.ranges.size(); ++i, Advance()) Range(rank_.ranges[i]);
    for (size_t i = 0; i < rank_.api_calls.size(); ++i, Advance()) Call(rank_.api_calls[i]);
    for (uint32_t i = 0; i < rank_.activities.size(); ++i, Advance()) Activity(i);
    for (size_t i = 0; i < rank_.syncs.size(); ++i, Advance()) SyncRow(rank_.syncs[i]);
    MemoryRows();
    Footer();
    return out_.Finish();
  }

 private:
  Nanos Ts(HostTime t) const { return Nanos(t.ns()) + shift_; }
  std::string_view Text(NameId id) const { return capture_.Text(id); }

  void Advance() {
    if (++done_ % kProgressEvery != 0 || !options_.progress) return;
    options_.progress(
        done_, rank_.ranges.size() + rank_.api_calls.size() + rank_.activities.size() + rank_.syncs.size());
  }

  JsonText& NewRow() {
    out_.FlushIfLarge();
    out_.Add(first_row_ ? "\n" : ",\n");
    first_row_ = false;
    return out_;
  }

  void NameRow(std::string_view kind, int64_t pid, uint64_t tid, std::string_view key,
               std::string_view text) {
    NewRow().Add("{\"ph\": \"M\", \"name\": ", Quoted{kind}, ", \"ts\": ", Ts(rank_.window.start),
                 ", \"pid\": ", pid, ", \"tid\": ", tid, ", \"args\": {", Quoted{key}, ": ", Quoted{text},
                 "}}");
  }
  void SortRow(std::string_view kind, int64_t pid, uint64_t tid, int64_t index) {
    NewRow().Add("{\"ph\": \"M\", \"name\": ", Quoted{kind}, ", \"ts\": ", Ts(rank_.window.start),
                 ", \"pid\": ", pid, ", \"tid\": ", tid, ", \"args\": {\"sort_index\": ", index, "}}");
  }

  void Names() {
    const int64_t device = rank_.device.value();
    const std::string program = rank_.program.empty() ? "python" : rank_.program;
    NameRow("process_name", pid_, 0, "name", program);
    NameRow("process_labels", pid_, 0, "labels", "CPU");
    SortRow("process_sort_index", pid_, 0, pid_);
    NameRow("process_name", device, 0, "name", program);
    NameRow("process_labels", device, 0, "labels", absl::StrCat("GPU ", device));
    SortRow("process_sort_index", device, 0, kGpuSortIndex + device);
    NewRow().Add(
        "{\"ph\": \"X\", \"cat\": \"Trace\", \"name\": \"PyTorch Profiler (0)\", \"pid\": \"Spans\", "
        "\"tid\": \"PyTorch Profiler\", \"ts\": ",
        Ts(rank_.window.start), ", \"dur\": ", rank_.window.length(), ", \"args\": {\"Op count\": 0}}");
    if (!NeedsStep()) return;
    // TensorBoard's plugin shows wrong values for a trace without a step.
    NewRow().Add("{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#0\", \"pid\": ",
                 pid_, ", \"tid\": ", pid_, ", \"ts\": ", Ts(rank_.window.start),
                 ", \"dur\": ", rank_.window.length(), ", \"args\": {\"lockstep\": \"inferred\"}}");
  }

  bool NeedsStep() const {
    return std::none_of(rank_.ranges.begin(), rank_.ranges.end(),
                        [](const capture::HostRange& r) { return r.kind == capture::RangeKind::kStep; });
  }

  // HTA knows only steps named ProfilerStep#N. It drops every device row of a trace that has such steps and
  // no launches.
  std::string RangeName(const capture::HostRange& range) const {
    const std::string_view name = Text(range.name);
    const bool profiler_step = name.starts_with("ProfilerStep#");
    if (range.kind != capture::RangeKind::kStep || profiler_step != rank_.api_calls.empty())
      return std::string(name);
    size_t digits = name.size();
    while (digits > 0 && std::isdigit(static_cast<unsigned char>(name[digits - 1])) != 0) --digits;
    return absl::StrCat(profiler_step ? "step " : "ProfilerStep#", std::string(name.substr(digits)));
  }

  void Thread(ThreadId thread) {
    if (!threads_.insert(thread).second) return;
    NameRow("thread_name", pid_, static_cast<uint64_t>(thread.value()), "name",
            absl::StrCat("thread ", thread.value()));
  }

  // True if the range is a step that ends where the next one begins.
  bool Abuts(size_t index) const {
    const capture::HostRange& range = rank_.ranges[index];
    if (range.kind != capture::RangeKind::kStep || range.end <= range.start) return false;
    const auto next = std::find_if(rank_.ranges.begin() + static_cast<ptrdiff_t>(index) + 1,
                                   rank_.ranges.end(), [&](const capture::HostRange& r) {
                                     return r.start > range.end ||
                                            (r.kind == capture::RangeKind::kStep && r.thread == range.thread);
                                   });
    return next != rank_.ranges.end() && next->kind == capture::RangeKind::kStep && next->start == range.end;
  }

  // Returns the written length of a row of a thread. A step that ends where the next one begins is written
  // one nanosecond shorter, because added up as doubles the two would overlap. What ends with it must not
  // extend beyond it.
  Nanos LengthOf(ThreadId thread, HostTime start, HostTime end) const {
    const bool shorter = end - start > Nanos(1) && shortened_.contains({thread, end});
    return shorter ? end - start - Nanos(1) : end - start;
  }

  void Range(const capture::HostRange& range) {
    Thread(range.thread);
    NewRow().Add("{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": ", Quoted{RangeName(range)},
                 ", \"pid\": ", pid_, ", \"tid\": ", range.thread.value(), ", \"ts\": ", Ts(range.start),
                 ", \"dur\": ", LengthOf(range.thread, range.start, range.end), ", \"args\": {");
    const uint64_t id = links_.ExternalId(range);
    if (id != 0) out_.Add("\"External id\": ", id);
    if (const std::string_view open = OpenRange(range); !open.empty())
      out_.Add(id != 0 ? ", " : "", "\"lockstep\": ", Quoted{open});
    out_.Add("}}");
  }

  // Returns the value that says at which ends the range extends beyond the window. The reader knows the same
  // values.
  static std::string_view OpenRange(const capture::HostRange& range) {
    if (range.start_unknown && range.end_unknown) return kOpenBoth;
    return range.start_unknown ? kOpenBegin : range.end_unknown ? kOpenEnd : "";
  }

  void Call(const capture::ApiCall& call) {
    Thread(call.thread);
    const uint32_t id = call.correlation.value();
    const bool launches = links_.Launches(call.correlation);
    // Of two rows with the same times, viewers put the second one inside the first. An arrow begins at the
    // inner one, which must be the call.
    if (launches && IsAnnotated(call)) {
      for (uint32_t collective : links_.CollectivesWithoutRange(call.correlation)) {
        if (AllRanksHave(collective)) Annotation(collective, call);
      }
    }
    NewRow().Add("{\"ph\": \"X\", \"cat\": ", call.driver ? "\"cuda_driver\"" : "\"cuda_runtime\"",
                 ", \"name\": ", Quoted{Text(call.name)}, ", \"pid\": ", pid_,
                 ", \"tid\": ", call.thread.value(), ", \"ts\": ", Ts(call.start),
                 ", \"dur\": ", LengthOf(call.thread, call.start, call.end),
                 ", \"args\": {\"cbid\": ", call.cbid, ", \"correlation\": ", id, "}}");
    if (!launches) return;
    NewRow().Add("{\"ph\": \"s\", \"id\": ", id, ", \"pid\": ", pid_, ", \"tid\": ", call.thread.value(),
                 ", \"ts\": ", Ts(call.start), ", \"cat\": \"ac2g\", \"name\": \"ac2g\"}");
  }

  // TensorBoard's plugin compares the k-th collective of one worker with the k-th of the others, and shows
  // nothing if their numbers differ. They differ outside of the steps that all ranks recorded whole.
  bool IsAnnotated(const capture::ApiCall& call) const {
    return options_.annotated.length() <= Nanos() ||
           (call.start >= options_.annotated.start && call.start < options_.annotated.end);
  }
  bool AllRanksHave(uint32_t collective) const {
    const capture::Matches* matches = options_.matches;
    if (matches == nullptr || rank_index_ >= matches->instance_of.size() ||
        collective >= matches->instance_of[rank_index_].size())
      return true;
    const uint32_t instance = matches->instance_of[rank_index_][collective];
    return instance < matches->instances.size() && matches->instances[instance].complete;
  }

  // Writes the annotation that PyTorch has open around a launch. TensorBoard's plugin finds communication by
  // it.
  void Annotation(uint32_t index, const capture::ApiCall& launch) {
    const capture::Collective& c = rank_.collectives[index];
    NewRow().Add("{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": ", Quoted{TorchAnnotation(c.op)},
                 ", \"pid\": ", pid_, ", \"tid\": ", launch.thread.value(), ", \"ts\": ", Ts(launch.start),
                 ", \"dur\": ", LengthOf(launch.thread, launch.start, launch.end),
                 ", \"args\": {\"External id\": ", launch.correlation.value());
    const std::string_view type = TensorBoardElementType(Text(c.datatype));
    if (c.bytes >= 0 && !type.empty()) {
      out_.Add(", \"Input Dims\": [[", c.bytes / capture::ElementBytes(Text(c.datatype)),
               "]], \"Input type\": [", Quoted{type}, "]");
    }
    out_.Add(", \"lockstep\": \"inferred\"}}");
  }

  void Stream(uint64_t tid, StreamId stream, uint32_t lane) {
    if (!stream_rows_.insert(tid).second) return;
    const std::string lane_text = lane == 0 ? "" : absl::StrCat("(lane ", lane + 1, ") ");
    NameRow("thread_name", rank_.device.value(), tid, "name",
            absl::StrCat("stream ", stream.value(), " ", lane_text));
    SortRow("thread_sort_index", rank_.device.value(), tid, stream.value());
  }

  void Activity(uint32_t index) {
    const capture::DeviceActivity& a = rank_.activities[index];
    const uint32_t lane = lanes_.Place(a.stream, a.start, a.end);
    const uint64_t tid = a.stream.value() + lane * kLaneStep;
    const int64_t device = rank_.device.value();
    Stream(tid, a.stream, lane);
    constexpr std::string_view kCategories[] = {"kernel", "gpu_memcpy", "gpu_memset"};
    NewRow().Add("{\"ph\": \"X\", \"cat\": ", Quoted{kCategories[static_cast<size_t>(a.kind)]},
                 ", \"name\": ", Quoted{NameOf(a)}, ", \"pid\": ", device, ", \"tid\": ", tid,
                 ", \"ts\": ", Ts(a.start), ", \"dur\": ", a.end - a.start, ", \"args\": {");
    if (const uint64_t id = links_.ExternalId(a)) out_.Add("\"External id\": ", id, ", ");
    if (a.kind == ActivityKind::kKernel) out_.Add("\"queued\": 0, ");
    out_.Add("\"device\": ", device, ", \"context\": ", ContextOf(a), ", \"stream\": ", a.stream.value(),
             ", \"correlation\": ", a.correlation.value());
    if (a.kind == ActivityKind::kKernel) {
      KernelArgs(a);
    } else {
      CopyArgs(a);
    }
    out_.Add("}}");
    if (!links_.IsLaunched(a.correlation)) return;
    NewRow().Add("{\"ph\": \"f\", \"id\": ", a.correlation.value(), ", \"pid\": ", device, ", \"tid\": ", tid,
                 ", \"ts\": ", Ts(a.start), ", \"cat\": \"ac2g\", \"name\": \"ac2g\", \"bp\": \"e\"}");
  }

  std::string NameOf(const capture::DeviceActivity& a) const {
    if (a.name != kNoName) return std::string(Text(a.name));
    return a.kind == ActivityKind::kKernel ? "unknown" : "Memcpy";
  }

  uint32_t ContextOf(const capture::DeviceActivity& a) const {
    if (a.kind == ActivityKind::kKernel)
      return a.detail < rank_.kernel_details.size() ? rank_.kernel_details[a.detail].context.value() : 0;
    return a.detail < rank_.copy_details.size() ? rank_.copy_details[a.detail].context.value() : 0;
  }

  void KernelArgs(const capture::DeviceActivity& a) {
    if (a.detail < rank_.kernel_details.size()) {
      const capture::KernelDetail& d = rank_.kernel_details[a.detail];
      out_.Add(", \"registers per thread\": ", d.registers,
               ", \"shared memory\": ", uint64_t{d.static_shared_bytes} + d.dynamic_shared_bytes);
      if (d.blocks_per_sm >= 0) out_.Add(", \"blocks per SM\": ", d.blocks_per_sm);
      if (d.warps_per_sm >= 0) out_.Add(", \"warps per SM\": ", d.warps_per_sm);
      out_.Add(", \"grid\": [", d.grid[0], ", ", d.grid[1], ", ", d.grid[2], "], \"block\": [", d.block[0],
               ", ", d.block[1], ", ", d.block[2], "]");
      if (const auto occupancy = analysis::EstimatedOccupancy(d, rank_.properties)) {
        out_.Add(", \"est. achieved occupancy %\": ", d.occupancy_percent >= 0
                                                          ? d.occupancy_percent
                                                          : std::round(static_cast<float>(*occupancy) * 100));
      }
      Graph(d.graph, d.graph_node);
    }
    if (a.collective < rank_.collectives.size())
      WriteCollectiveArgs(capture_, rank_.collectives[a.collective], out_);
  }

  void CopyArgs(const capture::DeviceActivity& a) {
    if (a.detail >= rank_.copy_details.size()) return;
    const capture::CopyDetail& d = rank_.copy_details[a.detail];
    out_.Add(", \"bytes\": ", d.bytes);
    // A trace of whole microseconds states a more exact bandwidth than its durations give.
    if (d.bandwidth_gb_per_s > 0) {
      out_.Add(", \"memory bandwidth (GB/s)\": ", d.bandwidth_gb_per_s);
    } else if (a.end > a.start) {
      out_.Add(", \"memory bandwidth (GB/s)\": ",
               static_cast<float>(d.bytes) / static_cast<float>((a.end - a.start).ns()));
    }
    Graph(d.graph, d.graph_node);
  }

  void Graph(uint32_t graph, uint64_t node) {
    if (graph != 0) out_.Add(", \"graph id\": ", graph, ", \"graph node id\": ", node);
  }

  void SyncRow(const capture::Sync& sync) {
    constexpr std::string_view kNames[] = {"Sync", "Event Sync", "Stream Wait Event", "Stream Sync",
                                           "Context Sync"};
    const auto type = std::min<size_t>(static_cast<size_t>(sync.type), std::size(kNames) - 1);
    const bool has_stream = sync.stream.value() != capture::kNone;
    const int64_t device = rank_.device.value();
    NewRow().Add("{\"ph\": \"X\", \"cat\": \"cuda_sync\", \"name\": ", Quoted{kNames[type]},
                 ", \"pid\": ", device, ", \"tid\": ");
    // Waits of a stream have their own track beside its activity, as in libkineto.
    out_.Add(has_stream ? int64_t{sync.stream.value()} + 1000000 : int64_t{-1}, ", \"ts\": ", Ts(sync.start),
             ", \"dur\": ", sync.end - sync.start, ", \"args\": {\"cuda_sync_kind\": ", Quoted{kNames[type]});
    if (sync.event != capture::kNone) out_.Add(", \"wait_on_cuda_event_id\": ", sync.event);
    if (const capture::EventRecord* record = links_.RecordFor(sync)) {
      out_.Add(", \"wait_on_stream\": ", record->stream.value(),
               ", \"wait_on_cuda_event_record_corr_id\": ", record->correlation.value());
    }
    out_.Add(", \"stream\": ", has_stream ? int64_t{sync.stream.value()} : int64_t{-1},
             ", \"correlation\": ", sync.correlation.value(), ", \"device\": ", device, "}}");
  }

  // Writes allocations as PyTorch's profiler does, on the calling thread. Totals are left out, because
  // allocations before the window are unknown.
  void MemoryRows() {
    if (rank_.memory_ops.empty()) return;
    absl::flat_hash_map<CorrelationId, ThreadId> callers;
    for (const capture::ApiCall& call : rank_.api_calls) callers.emplace(call.correlation, call.thread);
    constexpr uint8_t kPageable = 1, kPinned = 2;  // values of CUpti_ActivityMemoryKind for host memory
    constexpr int kCpu = 0, kCuda = 1;             // c10::DeviceType
    for (const capture::MemoryOp& op : rank_.memory_ops) {
      const auto caller = callers.find(op.correlation);
      const bool on_host = op.memory_kind == kPageable || op.memory_kind == kPinned;
      NewRow().Add("{\"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"name\": \"[memory]\", \"pid\": ", pid_,
                   ", \"tid\": ", caller != callers.end() ? caller->second.value() : pid_,
                   ", \"ts\": ", Ts(op.time),
                   ", \"s\": \"t\", \"args\": {\"Device Type\": ", on_host ? kCpu : kCuda,
                   ", \"Device Id\": ", on_host ? int64_t{-1} : int64_t{rank_.device.value()},
                   ", \"Addr\": ", op.address, ", \"Bytes\": ", op.release ? "-" : "", op.bytes,
                   ", \"correlation\": ", op.correlation.value(), "}}");
    }
  }

  void Footer() {
    NewRow().Add(
        "{\"ph\": \"i\", \"name\": \"Record Window End\", \"s\": \"g\", \"pid\": \"\", \"tid\": \"\", "
        "\"ts\": ",
        Ts(rank_.window.end), "}\n],\n\"traceName\": ",
        Quoted{KinetoFileName(capture_, static_cast<uint32_t>(&rank_ - capture_.ranks.data()))}, "\n}\n");
  }

  const Capture& capture_;
  const uint32_t rank_index_;
  const RankData& rank_;
  const KinetoOptions options_;
  const capture::ClockModel& clock_;
  JsonText out_;
  KinetoLinks links_;
  int64_t pid_;
  Nanos base_;
  Nanos shift_;
  bool first_row_ = true;
  uint64_t done_ = 0;
  StreamLanes lanes_;
  absl::flat_hash_set<ThreadId> threads_;
  std::set<std::pair<ThreadId, HostTime>> shortened_;  // ends of rows that are written shorter
  absl::flat_hash_set<uint64_t> stream_rows_;
};

}  // namespace

absl::Status WriteKineto(const Capture& capture, uint32_t rank_index, const capture::ClockModel& clock,
                         ByteSink& sink, const KinetoOptions& options) {
  if (rank_index >= capture.ranks.size()) {
    return absl::InvalidArgumentError(absl::StrCat("entry ", rank_index, " is out of range: the capture has ",
                                                   capture.ranks.size(), " entries"));
  }
  return KinetoWriter(capture, rank_index, clock, sink, options).Write();
}

std::string KinetoFileName(const Capture& capture, uint32_t rank_index) {
  const RankData& rank = capture.ranks[rank_index];
  std::string host = rank.host < capture.hosts.size() ? capture.hosts[rank.host].ShownName() : "host";
  for (char& c : host) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-') c = '-';
  }
  // Entries of one rank (several devices, or a restarted process) would have the same name. Tools only need
  // digits here and do not read their value.
  int64_t milliseconds = rank.window.start.ns() / 1000000;
  for (uint32_t i = 0; i < rank_index; ++i) milliseconds += capture.ranks[i].rank == rank.rank ? 1 : 0;
  return absl::StrCat(host, "_", rank.rank.value(), ".", milliseconds, ".pt.trace.json.gz");
}

}  // namespace lockstep::formats
