#include "formats/nsys/nsys_writer.h"

#include <algorithm>
#include <ctime>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "formats/nsys/nsys_identity.h"
#include "formats/nsys/nsys_schema.h"
#include "formats/nsys/sqlite_writer.h"

namespace lockstep::formats {
namespace {

using capture::ActivityKind;
using capture::Capture;
using capture::RankData;

// Value of nameEnum for a machine's name in TARGET_INFO_SYSTEM_ENV.
constexpr int kHostnameProperty = 619;
constexpr int kThreadsPerWarp = 32;

std::string UtcText(JobTime t) {
  const std::time_t seconds = t.ns() / 1000000000;
  std::tm utc = {};
  char text[32] = "";
  if (::gmtime_r(&seconds, &utc) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  return text;
}

// These tables store 0 as NULL.
std::optional<int64_t> UnlessZero(uint64_t value) {
  return value == 0 ? std::nullopt : std::optional<int64_t>(static_cast<int64_t>(value));
}

uint64_t RowsOf(const Capture& capture) {
  uint64_t rows = 0;
  for (const RankData& rank : capture.ranks) {
    rows += rank.activities.size() + rank.api_calls.size() + rank.syncs.size() + rank.ranges.size() +
            rank.event_records.size();
  }
  return rows;
}

class NsysWriter {
 public:
  NsysWriter(const Capture& capture, const capture::ClockModel& clock, SqliteWriter& writer,
             const WriteProgress& progress)
      : capture_(capture),
        writer_(writer),
        identity_(capture, clock),
        progress_(progress),
        total_(RowsOf(capture)) {}

  void Write() {
    for (const nsys::Table& table : nsys::Tables())
      writer_.Execute(absl::StrCat("CREATE TABLE ", table.name, " (", table.columns, ")"));
    Enums();
    Session();
    Processes();
    Gpus();
    Contexts();
    // Tables are written one after the other, so that the pages of each table are adjacent.
    Kernels();
    Copies();
    Sets();
    Syncs();
    Events();
    Calls();
    Ranges();
    Strings();
  }

 private:
  template <typename Each>
  void ForRanks(const Each& each) {
    for (size_t i = 0; i < capture_.ranks.size() && writer_.ok(); ++i) each(i, capture_.ranks[i]);
  }
  // Correlations are unique in the file, because scripts join by them alone.
  int64_t IdOf(size_t rank, CorrelationId correlation) const {
    const int64_t process = identity_.Of(rank).process;
    return correlation.value() == 0 ? 0 : process << 32 | int64_t{correlation.value()};
  }
  int64_t At(size_t rank, HostTime t) const { return identity_.FileTime(rank, t); }
  void Advance() {
    constexpr uint64_t kEvery = 8192;
    if (++done_ % kEvery == 0 && progress_) progress_(done_, total_);
  }

  void Enums() {
    for (const nsys::Enum& e : nsys::Enums()) {
      writer_.Execute(absl::StrCat("CREATE TABLE ", e.table,
                                   " (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT)"));
      SqliteInsert insert(writer_, e.table, {"id", "name", "label"});
      for (const nsys::EnumRow& row : e.rows) insert.Row(row.id, row.name, row.label);
    }
  }

  void Session() {
    int64_t end = 0;
    ForRanks([&](size_t i, const RankData& rank) {
      end = std::max(end, At(i, rank.window.end));
      if (!rank.activities.empty()) end = std::max(end, At(i, rank.activities.back().end));
    });
    const std::string utc = UtcText(identity_.base());
    SqliteInsert(writer_, "TARGET_INFO_SESSION_START_TIME",
                 {"utcEpochNs", "utcTime", "localTime", "systemClockNs"})
        .Row(identity_.base().ns(), utc, utc, 0);
    SqliteInsert(writer_, "ANALYSIS_DETAILS", {"globalVid", "duration", "startTime", "stopTime"})
        .Row(nsys::GlobalId(identity_.MachineOf(0), 0, 0), end, 0, end);
    SqliteInsert properties(writer_, "TARGET_INFO_SYSTEM_ENV",
                            {"globalVid", "devStateName", "name", "nameEnum", "value"});
    for (uint32_t h = 0; h < capture_.hosts.size(); ++h) {
      const std::string& name = capture_.hosts[h].ShownName();
      properties.Row(nsys::GlobalId(identity_.MachineOf(h), 0, 0), name, "Hostname", kHostnameProperty, name);
    }
    SqliteInsert exported(writer_, "META_DATA_EXPORT", {"name", "value"});
    const auto [major, minor, micro] = nsys::kSchemaVersion;
    exported.Row("EXPORT_PRODUCT_NAME", "Lockstep");
    exported.Row("EXPORT_SCHEMA_VERSION", absl::StrCat(major, ".", minor, ".", micro));
    exported.Row("EXPORT_SCHEMA_VERSION_MAJOR", major);
    exported.Row("EXPORT_SCHEMA_VERSION_MINOR", minor);
    exported.Row("EXPORT_SCHEMA_VERSION_MICRO", micro);
    exported.Row("EXPORT_PARAM_TIME_NORMALIZE", "false");
    SqliteInsert captured(writer_, "META_DATA_CAPTURE", {"name", "value"});
    captured.Row("CAPTURE_EVENT_TYPE", "Cuda");
    captured.Row("CAPTURE_EVENT_TYPE", "NvtxEvents");
  }

  void Processes() {
    SqliteInsert processes(writer_, "PROCESSES", {"globalPid", "pid", "name"});
    SqliteInsert names(writer_, "ThreadNames", {"nameId", "globalTid"});
    ForRanks([&](size_t i, const RankData& rank) {
      const NsysEntry& entry = identity_.Of(i);
      if (!entry.first_of_process) return;
      processes.Row(entry.global_pid, nsys::PidOf(entry.global_pid),
                    rank.program.empty() ? "python" : rank.program);
      for (const capture::ThreadName& t : rank.thread_names)
        names.Row(t.name.value(), identity_.GlobalTid(i, t.thread));
    });
  }

  void Gpus() {
    SqliteInsert gpus(writer_, "TARGET_INFO_GPU",
                      {"vmId", "id", "name", "uuid", "l2CacheSize", "totalMemory", "memoryBandwidth",
                       "clockRate", "smCount", "cuDevice", "maxShmemPerSm", "maxRegistersPerSm",
                       "threadsPerWarp", "maxWarpsPerSm", "computeMajor", "computeMinor"});
    SqliteInsert devices(writer_, "TARGET_INFO_CUDA_DEVICE",
                         {"gpuId", "cudaId", "pid", "uuid", "numMultiprocessors"});
    ForRanks([&](size_t i, const RankData& rank) {
      if (!rank.has_properties) return;
      const capture::DeviceProperties& p = rank.properties;
      const auto uuid = p.uuid.empty() ? std::nullopt : std::optional<std::string_view>(p.uuid);
      const auto sms = UnlessZero(static_cast<uint64_t>(p.sms));
      gpus.Row(nsys::GlobalId(identity_.MachineOf(rank.host), 0, 0), i, p.name, uuid, UnlessZero(p.l2_bytes),
               UnlessZero(p.memory_bytes), UnlessZero(p.memory_bytes_per_s),
               UnlessZero(uint64_t{p.clock_khz} * 1000), sms, rank.device.value(),
               UnlessZero(p.shared_bytes_per_sm), UnlessZero(static_cast<uint64_t>(p.registers_per_sm)),
               kThreadsPerWarp, UnlessZero(static_cast<uint64_t>(p.max_threads_per_sm / kThreadsPerWarp)),
               p.compute_major, p.compute_minor);
      devices.Row(i, rank.device.value(), nsys::PidOf(identity_.Of(i).global_pid), uuid, sms);
    });
  }

  // Writes the contexts of our own captures; for an import, the contexts that its kernels name.
  void Contexts() {
    SqliteInsert contexts(writer_, "TARGET_INFO_CUDA_CONTEXT_INFO",
                          {"nullStreamId", "hwId", "vmId", "processId", "deviceId", "contextId",
                           "parentContextId", "isGreenContext"});
    SqliteInsert streams(writer_, "TARGET_INFO_CUDA_STREAM",
                         {"streamId", "hwId", "vmId", "processId", "contextId", "priority", "flag"});
    ForRanks([&](size_t i, const RankData& rank) {
      const int64_t hardware = identity_.MachineOf(rank.host) >> 8;
      const int64_t machine = identity_.MachineOf(rank.host) & 0xFF;
      const int32_t pid = nsys::PidOf(identity_.Of(i).global_pid);
      std::set<ContextId> seen;
      for (const capture::DeviceContext& c : rank.contexts) {
        seen.insert(c.context);
        contexts.Row(c.null_stream.value(), hardware, machine, pid, c.device.value(), c.context.value(),
                     UnlessZero(c.parent.value()), c.green);
      }
      for (const capture::KernelDetail& d : rank.kernel_details) {
        if (seen.insert(d.context).second)
          contexts.Row(0, hardware, machine, pid, rank.device.value(), d.context.value(),
                       std::optional<int64_t>(), 0);
      }
      for (const capture::DeviceStream& s : rank.streams) {
        streams.Row(s.stream.value(), hardware, machine, pid, s.context.value(), s.priority,
                    static_cast<int>(s.type));
      }
    });
  }

  // Returns the id of the kernel's short name. These ids follow those of the capture's own strings.
  int64_t ShortName(NameId id) {
    const auto [known, fresh] = short_of_.try_emplace(id, 0);
    if (!fresh) return known->second;
    const auto next = static_cast<int64_t>(capture_.strings.size() + short_names_.size());
    const auto [it, is_new] =
        short_ids_.try_emplace(std::string(nsys::ShortKernelName(capture_.Text(id))), next);
    if (is_new) short_names_.push_back(&it->first);
    return known->second = it->second;
  }

  void Kernels() {
    SqliteInsert insert(writer_, "CUPTI_ACTIVITY_KIND_KERNEL",
                        {"start",
                         "end",
                         "deviceId",
                         "contextId",
                         "streamId",
                         "correlationId",
                         "globalPid",
                         "demangledName",
                         "shortName",
                         "registersPerThread",
                         "gridX",
                         "gridY",
                         "gridZ",
                         "blockX",
                         "blockY",
                         "blockZ",
                         "staticSharedMemory",
                         "dynamicSharedMemory",
                         "graphNodeId",
                         "graphId"},
                        {{"localMemoryPerThread", "0"},
                         {"localMemoryTotal", "0"},
                         {"gridId", "0"},
                         {"tensorSizeMinusOneElements", "'[]'"}});
    const capture::KernelDetail unknown;
    ForRanks([&](size_t i, const RankData& rank) {
      const int64_t pid = identity_.Of(i).global_pid;
      for (const capture::DeviceActivity& a : rank.activities) {
        if (a.kind != ActivityKind::kKernel) continue;
        const capture::KernelDetail& d =
            a.detail < rank.kernel_details.size() ? rank.kernel_details[a.detail] : unknown;
        insert.Row(At(i, a.start), At(i, a.end), rank.device.value(), d.context.value(), a.stream.value(),
                   IdOf(i, a.correlation), pid, a.name.value(), ShortName(a.name), d.registers, d.grid[0],
                   d.grid[1], d.grid[2], d.block[0], d.block[1], d.block[2], d.static_shared_bytes,
                   d.dynamic_shared_bytes, UnlessZero(d.graph_node), UnlessZero(d.graph));
        Advance();
      }
    });
  }

  template <typename Each>
  void ForCopies(ActivityKind kind, const Each& each) {
    const capture::CopyDetail unknown;
    ForRanks([&](size_t i, const RankData& rank) {
      for (const capture::DeviceActivity& a : rank.activities) {
        if (a.kind != kind) continue;
        each(i, rank, a, a.detail < rank.copy_details.size() ? rank.copy_details[a.detail] : unknown);
        Advance();
      }
    });
  }

  void Copies() {
    SqliteInsert insert(writer_, "CUPTI_ACTIVITY_KIND_MEMCPY",
                        {"start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid",
                         "bytes", "copyKind", "srcKind", "dstKind", "graphNodeId"});
    ForCopies(ActivityKind::kMemcpy, [&](size_t i, const RankData& rank, const capture::DeviceActivity& a,
                                         const capture::CopyDetail& d) {
      insert.Row(At(i, a.start), At(i, a.end), rank.device.value(), d.context.value(), a.stream.value(),
                 IdOf(i, a.correlation), identity_.Of(i).global_pid, d.bytes, d.copy_kind,
                 nsys::MemoryKind(d.src_kind), nsys::MemoryKind(d.dst_kind), UnlessZero(d.graph_node));
    });
  }

  void Sets() {
    SqliteInsert insert(writer_, "CUPTI_ACTIVITY_KIND_MEMSET",
                        {"start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid",
                         "bytes", "memKind", "graphNodeId"},
                        {{"value", "0"}});
    ForCopies(ActivityKind::kMemset, [&](size_t i, const RankData& rank, const capture::DeviceActivity& a,
                                         const capture::CopyDetail& d) {
      insert.Row(At(i, a.start), At(i, a.end), rank.device.value(), d.context.value(), a.stream.value(),
                 IdOf(i, a.correlation), identity_.Of(i).global_pid, d.bytes, nsys::MemoryKind(d.dst_kind),
                 UnlessZero(d.graph_node));
    });
  }

  void Syncs() {
    SqliteInsert insert(
        writer_, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        {"start", "end", "deviceId", "streamId", "correlationId", "globalPid", "syncType", "eventId"},
        {{"contextId", "0"}});
    ForRanks([&](size_t i, const RankData& rank) {
      for (const capture::Sync& s : rank.syncs) {
        insert.Row(At(i, s.start), At(i, s.end), rank.device.value(), s.stream.value(),
                   IdOf(i, s.correlation), identity_.Of(i).global_pid, static_cast<int>(s.type), s.event);
        Advance();
      }
    });
  }

  void Events() {
    SqliteInsert insert(writer_, "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
                        {"deviceId", "streamId", "correlationId", "globalPid", "eventId"},
                        {{"timestamp", "0"}, {"contextId", "0"}});
    ForRanks([&](size_t i, const RankData& rank) {
      for (const capture::EventRecord& e : rank.event_records) {
        insert.Row(rank.device.value(), e.stream.value(), IdOf(i, e.correlation), identity_.Of(i).global_pid,
                   e.event);
        Advance();
      }
    });
  }

  void Calls() {
    SqliteInsert insert(writer_, "CUPTI_ACTIVITY_KIND_RUNTIME",
                        {"start", "end", "eventClass", "globalTid", "correlationId", "nameId"},
                        {{"returnValue", "0"}});
    ForRanks([&](size_t i, const RankData& rank) {
      for (const capture::ApiCall& c : rank.api_calls) {
        insert.Row(At(i, c.start), At(i, c.end), c.driver ? nsys::kDriverCall : nsys::kRuntimeCall,
                   identity_.GlobalTid(i, c.thread), IdOf(i, c.correlation), c.name.value());
        Advance();
      }
    });
  }

  void Ranges() {
    SqliteInsert insert(writer_, "NVTX_EVENTS",
                        {"start", "end", "eventType", "text", "globalTid", "textId", "domainId"});
    std::map<NameId, int64_t> domains = {{kNoName, 0}};
    std::set<std::pair<int64_t, int64_t>> created;
    ForRanks([&](size_t i, const RankData& rank) {
      if (!identity_.Of(i).writes_ranges) return;
      for (const capture::HostRange& r : rank.ranges) {
        // The table cannot say that a start is unknown. A reader would take such a range for a whole step.
        if (r.start_unknown) continue;
        const int64_t tid = identity_.GlobalTid(i, r.thread);
        const auto domain = domains.try_emplace(r.domain, static_cast<int64_t>(domains.size())).first->second;
        const std::string_view text = capture_.Text(r.name);
        if (domain != 0 && created.emplace(identity_.Of(i).global_pid, domain).second) {
          insert.Row(At(i, r.start), std::optional<int64_t>(), nsys::kDomainCreate, capture_.Text(r.domain),
                     tid, std::optional<int64_t>(), domain);
        }
        // NCCL registers its strings. Nsight Systems puts registered strings into textId, and scripts look
        // for them there.
        const bool registered = domain != 0 && text.starts_with("nccl");
        const std::optional<int64_t> end =
            r.end_unknown ? std::nullopt : std::optional<int64_t>(At(i, r.end));
        insert.Row(At(i, r.start), end, nsys::kPushPopRange,
                   registered ? std::nullopt : std::optional<std::string_view>(text), tid,
                   registered ? std::optional<int64_t>(r.name.value()) : std::nullopt, domain);
        Advance();
      }
    });
  }

  void Strings() {
    SqliteInsert insert(writer_, "StringIds", {"id", "value"});
    for (uint32_t id = 0; id < capture_.strings.size(); ++id) insert.Row(id, capture_.Text(NameId(id)));
    for (size_t i = 0; i < short_names_.size(); ++i)
      insert.Row(capture_.strings.size() + i, *short_names_[i]);
  }

  const Capture& capture_;
  SqliteWriter& writer_;
  NsysIdentity identity_;
  const WriteProgress& progress_;
  const uint64_t total_;
  uint64_t done_ = 0;
  std::map<NameId, int64_t> short_of_;
  std::map<std::string, int64_t> short_ids_;
  std::vector<const std::string*> short_names_;
};

}  // namespace

absl::Status WriteNsysSqlite(const Capture& capture, const capture::ClockModel& clock,
                             const std::string& path, const WriteProgress& progress) {
  auto writer = SqliteWriter::Create(path);
  if (!writer.ok()) return writer.status();
  NsysWriter(capture, clock, *writer, progress).Write();
  return writer->Finish();
}

}  // namespace lockstep::formats
