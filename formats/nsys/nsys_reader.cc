#include "formats/nsys/nsys_reader.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "formats/common/read_options.h"
#include "formats/nsys/nsys_rows.h"
#include "formats/nsys/nsys_schema.h"

namespace lockstep::formats {
namespace {

using capture::ActivityKind;

constexpr char kNoClock[] = "its time stamps are impossible";

// Columns that all device tables share. They come before each table's own columns.
enum DeviceColumn : size_t { kStart, kEnd, kDevice, kContext, kStream, kCorrelation, kPid, kOwn };
// Number of columns that a table of activities must have.
constexpr size_t kNeeded = 3;

// CUPTI's ids have 32 bits. Our own files have the process in the bits above.
CorrelationId CorrelationOf(TableScan& scan, size_t column) {
  return CorrelationId(static_cast<uint32_t>(scan.IntegerOr<uint64_t>(column, 0)));
}

class NsysReader {
 public:
  NsysReader(const SqliteDatabase& database, const RowProgress& progress, HostDetail host)
      : database_(database), host_(host), strings_(database, file_), progress_(database, progress) {}

  NsysFile Read() {
    file_.damage = database_.damage();
    ReadNsysSession(database_, file_);
    Kernels();
    Copies();
    Sets();
    Graphs();
    Syncs();
    Events();
    Calls();
    ReadNsysRanges(database_, host_, strings_, progress_, file_);
    Processes();
    Threads();
    MpiRanks();
    return std::move(file_);
  }

 private:
  NsysProcess* Find(int64_t global_id) {
    const int64_t global_pid = nsys::ProcessOf(global_id);
    if (last_ != nullptr && last_->global_pid == global_pid) return last_;
    const auto it = file_.processes.find(global_pid);
    return it == file_.processes.end() ? nullptr : last_ = &it->second;
  }
  NsysProcess& FindOrAdd(int64_t global_id) {
    if (NsysProcess* found = Find(global_id)) return *found;
    const int64_t global_pid = nsys::ProcessOf(global_id);
    last_ = &file_.processes[global_pid];
    last_->global_pid = global_pid;
    return *last_;
  }

  // Returns the times of the current row. nullopt: it has no valid times and is counted as lost.
  std::optional<HostInterval> Times(TableScan& scan) {
    progress_.Advance();
    const auto start = scan.Integer(kStart);
    const auto end = scan.Integer(kEnd);
    if (!start || !end) {
      if (scan.Usable()) scan.Refuse("it has no times");
      return std::nullopt;
    }
    auto times = NsysTimes(file_, *start, *end);
    if (!times) scan.Refuse(kNoClock);
    return times;
  }

  // Reads the common cells of an activity, and its process and device. nullopt: the row has no valid times
  // and is counted as lost.
  std::optional<capture::DeviceActivity> Activity(TableScan& scan) {
    const auto times = Times(scan);
    if (!times) return std::nullopt;
    capture::DeviceActivity a{.start = times->start, .end = times->end};
    a.stream = StreamId(scan.IntegerOr<uint32_t>(kStream, 0));
    a.correlation = CorrelationOf(scan, kCorrelation);
    row_pid_ = scan.IntegerOr<int64_t>(kPid, 0);
    row_device_ = DeviceId(scan.IntegerOr<uint32_t>(kDevice, 0));
    return a;
  }
  // Returns the device of the row, after all its cells were read. nullptr: a cell cannot be used, and the row
  // is counted as lost.
  NsysDevice* Place(TableScan& scan, const capture::DeviceActivity& a) {
    if (!scan.Usable()) return nullptr;
    NsysProcess& process = FindOrAdd(row_pid_);
    Widen(process, {a.start, a.end});
    return &process.Device(row_device_);
  }

  void Kernels() {
    constexpr const char* kColumns[] = {"start",
                                        "end",
                                        "deviceId",
                                        "contextId",
                                        "streamId",
                                        "correlationId",
                                        "globalPid",
                                        "demangledName",
                                        "registersPerThread",
                                        "gridX",
                                        "gridY",
                                        "gridZ",
                                        "blockX",
                                        "blockY",
                                        "blockZ",
                                        "staticSharedMemory",
                                        "dynamicSharedMemory",
                                        "graphId",
                                        "graphNodeId",
                                        "shortName"};
    TableScan scan(database_, "CUPTI_ACTIVITY_KIND_KERNEL", kColumns, kNeeded, file_.losses);
    while (scan.Next()) {
      auto a = Activity(scan);
      if (!a) continue;
      capture::KernelDetail d;
      for (size_t axis = 0; axis < 3; ++axis) {
        d.grid[axis] = scan.IntegerOr<uint32_t>(kOwn + 2 + axis, 0);
        d.block[axis] = scan.IntegerOr<uint16_t>(kOwn + 5 + axis, 0);
      }
      d.registers = scan.IntegerOr<uint16_t>(kOwn + 1, 0);
      d.static_shared_bytes = scan.IntegerOr<uint32_t>(kOwn + 8, 0);
      d.dynamic_shared_bytes = scan.IntegerOr<uint32_t>(kOwn + 9, 0);
      d.graph = scan.IntegerOr<uint32_t>(kOwn + 10, 0);
      d.graph_node = static_cast<uint64_t>(scan.IntegerOr<int64_t>(kOwn + 11, 0));
      d.context = ContextId(scan.IntegerOr<uint32_t>(kContext, 0));
      std::optional<int64_t> name = scan.Integer(kOwn);
      if (!name) name = scan.Integer(kOwn + 12);
      NsysDevice* device = Place(scan, *a);
      if (device == nullptr) continue;
      if (name) a->name = strings_.Name(*name);
      // Every kernel has a grid. A kernel without one has no known details.
      if (d.grid[0] != 0) {
        a->detail = static_cast<uint32_t>(device->kernel_details.size());
        device->kernel_details.push_back(d);
      }
      device->activities.push_back(*a);
    }
  }

  void AddCopy(TableScan& scan, ActivityKind kind, capture::DeviceActivity a, const capture::CopyDetail& d) {
    NsysDevice* device = Place(scan, a);
    if (device == nullptr) return;
    a.kind = kind;
    if (d.bytes != 0 || d.copy_kind != 0 || d.src_kind != 0 || d.dst_kind != 0) {
      a.detail = static_cast<uint32_t>(device->copy_details.size());
      device->copy_details.push_back(d);
    }
    device->activities.push_back(a);
  }

  void Copies() {
    constexpr const char* kColumns[] = {"start",    "end",           "deviceId",  "contextId",
                                        "streamId", "correlationId", "globalPid", "bytes",
                                        "copyKind", "srcKind",       "dstKind",   "graphNodeId"};
    TableScan scan(database_, "CUPTI_ACTIVITY_KIND_MEMCPY", kColumns, kNeeded, file_.losses);
    while (scan.Next()) {
      const auto a = Activity(scan);
      if (!a) continue;
      AddCopy(scan, ActivityKind::kMemcpy, *a,
              {.bytes = static_cast<uint64_t>(scan.IntegerOr<int64_t>(kOwn, 0)),
               .context = ContextId(scan.IntegerOr<uint32_t>(kContext, 0)),
               .copy_kind = scan.IntegerOr<uint8_t>(kOwn + 1, 0),
               .src_kind = nsys::CuptiMemoryKind(scan.IntegerOr<int64_t>(kOwn + 2, nsys::kUnknownMemory)),
               .dst_kind = nsys::CuptiMemoryKind(scan.IntegerOr<int64_t>(kOwn + 3, nsys::kUnknownMemory)),
               .graph_node = static_cast<uint64_t>(scan.IntegerOr<int64_t>(kOwn + 4, 0))});
    }
  }

  void Sets() {
    constexpr const char* kColumns[] = {"start",         "end",       "deviceId", "contextId", "streamId",
                                        "correlationId", "globalPid", "bytes",    "memKind",   "graphNodeId"};
    TableScan scan(database_, "CUPTI_ACTIVITY_KIND_MEMSET", kColumns, kNeeded, file_.losses);
    while (scan.Next()) {
      const auto a = Activity(scan);
      if (!a) continue;
      AddCopy(scan, ActivityKind::kMemset, *a,
              {.bytes = static_cast<uint64_t>(scan.IntegerOr<int64_t>(kOwn, 0)),
               .context = ContextId(scan.IntegerOr<uint32_t>(kContext, 0)),
               .dst_kind = nsys::CuptiMemoryKind(scan.IntegerOr<int64_t>(kOwn + 1, nsys::kUnknownMemory)),
               .graph_node = static_cast<uint64_t>(scan.IntegerOr<int64_t>(kOwn + 2, 0))});
    }
  }

  // Counts graphs recorded as wholes (--cuda-graph-trace=graph). The kernels inside them are unknown.
  void Graphs() {
    constexpr const char* kColumns[] = {"start",    "end",           "deviceId", "contextId",
                                        "streamId", "correlationId", "globalPid"};
    TableScan scan(database_, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", kColumns, kNeeded, file_.losses);
    while (scan.Next()) {
      const auto a = Activity(scan);
      if (!a) continue;
      if (NsysDevice* device = Place(scan, *a)) ++device->graphs;
    }
  }

  // nullptr: the row's process used no device, so the row belongs to no rank.
  NsysDevice* DeviceOf(TableScan& scan) {
    NsysProcess* process = Find(scan.IntegerOr<int64_t>(kPid, 0));
    if (process == nullptr) return nullptr;
    const DeviceId device(scan.IntegerOr<uint32_t>(kDevice, 0));
    for (NsysDevice& d : process->devices) {
      if (d.device == device) return &d;
    }
    return &process->devices.front();
  }

  void Syncs() {
    constexpr const char* kColumns[] = {"start",         "end",       "deviceId", "contextId", "streamId",
                                        "correlationId", "globalPid", "syncType", "eventId"};
    TableScan scan(database_, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", kColumns, kNeeded, file_.losses);
    while (scan.Next()) {
      const auto times = Times(scan);
      if (!times) continue;
      capture::Sync s{.start = times->start, .end = times->end};
      s.stream = StreamId(scan.IntegerOr<uint32_t>(kStream, capture::kNone));
      s.correlation = CorrelationOf(scan, kCorrelation);
      const auto type = scan.IntegerOr<int64_t>(kOwn, 0);
      if (type >= 0 && type <= static_cast<int64_t>(capture::SyncType::kContext))
        s.type = static_cast<capture::SyncType>(type);
      s.event = scan.IntegerOr<uint32_t>(kOwn + 1, capture::kNone);
      NsysDevice* device = DeviceOf(scan);
      if (!scan.Usable() || device == nullptr) continue;
      Widen(*Find(scan.IntegerOr<int64_t>(kPid, 0)), *times);
      device->syncs.push_back(s);
    }
  }

  void Events() {
    constexpr const char* kColumns[] = {"timestamp", "eventId",       "deviceId", "contextId",
                                        "streamId",  "correlationId", "globalPid"};
    TableScan scan(database_, "CUPTI_ACTIVITY_KIND_CUDA_EVENT", kColumns, 2, file_.losses);
    while (scan.Next()) {
      const CorrelationId correlation = CorrelationOf(scan, kCorrelation);
      const StreamId stream(scan.IntegerOr<uint32_t>(kStream, 0));
      const auto event = scan.IntegerOr<uint32_t>(1, capture::kNone);
      NsysDevice* device = DeviceOf(scan);
      if (scan.Usable() && device != nullptr) device->event_records.push_back({correlation, stream, event});
    }
  }

  void Calls() {
    constexpr const char* kColumns[] = {"start", "end", "globalTid", "nameId", "correlationId", "eventClass"};
    TableScan scan(database_, "CUPTI_ACTIVITY_KIND_RUNTIME", kColumns, 4, file_.losses);
    file_.has_calls = scan.exists();
    while (scan.Next()) {
      const auto times = Times(scan);
      if (!times) continue;
      const auto thread = scan.IntegerOr<int64_t>(2, 0);
      const auto name = scan.IntegerOr<int64_t>(3, 0);
      capture::ApiCall call{.start = times->start, .end = times->end};
      call.correlation = CorrelationOf(scan, 4);
      call.driver = scan.IntegerOr<int64_t>(5, nsys::kRuntimeCall) == nsys::kDriverCall;
      call.thread = ThreadId(nsys::TidOf(thread));
      NsysProcess* process = scan.Usable() ? Find(thread) : nullptr;
      if (process == nullptr) continue;
      call.name = CallName(name);
      Widen(*process, *times);
      process->api_calls.push_back(call);
    }
  }

  // "cudaLaunchKernel_v7000" is the function that our captures call "cudaLaunchKernel". In the driver API,
  // "cuMemAlloc_v2" and "cuMemAlloc" are different functions.
  NameId CallName(int64_t id) {
    const auto [it, fresh] = call_names_.try_emplace(id, kNoName);
    if (!fresh) return it->second;
    const NameId whole = strings_.Name(id);
    std::string_view text = file_.strings.Text(whole);
    const size_t version = text.rfind("_v");
    const bool versioned = text.starts_with("cuda") && version != std::string_view::npos &&
                           version + 2 < text.size() &&
                           text.find_first_not_of("0123456789", version + 2) == std::string_view::npos;
    return it->second = versioned ? file_.strings.Intern(std::string(text.substr(0, version))) : whole;
  }

  void Processes() {
    constexpr const char* kColumns[] = {"globalPid", "name"};
    TableScan scan(database_, "PROCESSES", kColumns, 2, file_.losses);
    while (scan.Next()) {
      NsysProcess* process = Find(scan.IntegerOr<int64_t>(0, 0));
      const std::string name(scan.Text(1));
      if (scan.Usable() && process != nullptr) process->name = name;
    }
  }

  void Threads() {
    constexpr const char* kColumns[] = {"nameId", "globalTid"};
    TableScan scan(database_, "ThreadNames", kColumns, 2, file_.losses);
    while (scan.Next()) {
      const auto name = scan.IntegerOr<int64_t>(0, 0);
      const auto thread = scan.IntegerOr<int64_t>(1, 0);
      NsysProcess* process = scan.Usable() ? Find(thread) : nullptr;
      if (process != nullptr)
        process->thread_names.push_back({ThreadId(nsys::TidOf(thread)), strings_.Name(name)});
    }
  }

  void MpiRanks() {
    constexpr const char* kColumns[] = {"globalTid", "rank"};
    TableScan scan(database_, "MPI_RANKS", kColumns, 2, file_.losses);
    while (scan.Next()) {
      NsysProcess* process = Find(scan.IntegerOr<int64_t>(0, 0));
      const auto rank = scan.IntegerOr<int32_t>(1, -1);
      if (scan.Usable() && process != nullptr && rank >= 0) process->mpi_rank = RankId(rank);
    }
  }

  const SqliteDatabase& database_;
  const HostDetail host_;
  NsysFile file_;
  NsysStrings strings_;
  NsysProgress progress_;
  NsysProcess* last_ = nullptr;
  int64_t row_pid_ = 0;
  DeviceId row_device_;
  absl::flat_hash_map<int64_t, NameId> call_names_;
};

}  // namespace

NsysFile ReadNsys(const SqliteDatabase& database, const RowProgress& progress, HostDetail host) {
  return NsysReader(database, progress, host).Read();
}

}  // namespace lockstep::formats
