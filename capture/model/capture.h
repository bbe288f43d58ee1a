// A capture in memory: what every rank did, as recorded. The one input of analysis, report and trace writers.
//
// Filled by: LoadRecords (our own records/) and the readers in aggregator/trace (Kineto, …), then Finish()ed
// once. After that it is read-only and may be read from any thread. Owns all it points to. Stamps are those
// of the rank's own host clock, unchanged: align::ClockModel maps them onto the job's clock when ranks are
// compared. A rank's own durations never go through that map.
#ifndef LOCKSTEP_AGGREGATOR_STORE_CAPTURE_H_
#define LOCKSTEP_AGGREGATOR_STORE_CAPTURE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "capture/model/host_frames.h"
#include "capture/model/rank_rows.h"
#include "capture/model/string_table.h"

namespace lockstep::store {

// How a capture knows a group: its source named it; nothing did, and one group of all ranks stands for
// whatever there was; or align::InferGroups found it by who meets whom.
enum class GroupOrigin : uint8_t { kStated, kAssumed, kInferred };

// A communicator. Its identity is `key` with the member list, not its name.
struct Group {
  std::string key;
  std::string name;
  // World ranks in the order of their rank in the group; empty where unknown.
  std::vector<RankId> members;
  int32_t size = 0;  // 0: unknown
  GroupOrigin origin = GroupOrigin::kStated;

  const std::string& ShownName() const { return name.empty() ? key : name; }
};

// All clocks of the host read together.
struct ClockReading {
  HostTime realtime;
  MonoTime monotonic;
  int64_t monotonic_raw_ns = 0;
  uint64_t tsc = 0;
  HostTime cupti;  // 0: not read
  Nanos gap;
};

// One exchange between a host's daemon (1, 4) and the aggregator (2, 3).
struct ClockExchange {
  HostTime t1;
  JobTime t2;
  JobTime t3;
  HostTime t4;
  MonoTime monotonic;
};

// Ranks of one host share its clock.
struct Host {
  std::string id;    // node id
  std::string name;  // shown; may be empty
  std::vector<ClockExchange> exchanges;

  const std::string& ShownName() const { return name.empty() ? id : name; }
};

struct Loss {
  std::string stage;  // as in report.json
  std::string kind;   // "kernel", …; empty where the loser cannot tell
  uint64_t records = 0;
  std::string reason;
  HostTime from;
  HostTime to;
};

// Of the device a rank runs on. Live captures have all of it, an import what its file tells.
struct DeviceProperties {
  std::string name;
  std::string uuid;  // "GPU-…" or, of a part of one, "MIG-…", as nvidia-smi takes it; empty: unknown
  int32_t sms = 0;   // 0: unknown, as the others
  int32_t compute_major = 0;
  int32_t compute_minor = 0;
  int32_t max_threads_per_sm = 0;
  int32_t registers_per_sm = 0;
  uint64_t shared_bytes_per_sm = 0;
  uint64_t memory_bytes = 0;
  uint64_t memory_bytes_per_s = 0;
  uint64_t l2_bytes = 0;
  uint32_t clock_khz = 0;  // of the multiprocessors, at most
  int32_t numa_node = -1;  // that its memory is; -1: none, or unknown
  bool ecc = false;
};

// Unions of host activity that an import saw and did not keep row by row; sorted, disjoint. Empty in live
// captures.
struct HostUnions {
  std::vector<HostInterval> operators;    // CPU operators
  std::vector<HostInterval> data_loader;  // operators and ranges of the data loader
};

// One (rank, device, process).
struct RankData {
  RankId rank = kNoRank;
  uint32_t host = kNone;  // into Capture::hosts
  DeviceId device;
  int32_t pid = 0;
  uint32_t incarnation = 1;
  std::string program;
  // What the capture asked for, on the host's clock. For an import: first and last stamp of any row.
  HostInterval window;
  std::string source_file;  // imports
  // Did the rank's number come from the data, or was it inferred (file name, position)?
  std::string rank_source;
  DeviceProperties properties;
  bool has_properties = false;

  std::vector<DeviceActivity> activities;  // sorted by start, then end
  std::vector<KernelDetail> kernel_details;
  std::vector<CopyDetail> copy_details;
  std::vector<ApiCall> api_calls;          // sorted by start
  std::vector<Sync> syncs;                 // sorted by start
  std::vector<EventRecord> event_records;  // in any order; may be empty: waits are then inferred from times
  std::vector<HostRange> ranges;           // sorted by start
  std::vector<Collective> collectives;     // sorted by the start of their activity
  std::vector<ClockReading> clocks;        // sorted
  // Where a capture asked for them (nccl-channels, nccl-proxy); sorted by start.
  std::vector<ChannelTiming> channel_timings;
  std::vector<ProxyOp> proxy_ops;
  GpuTimer gpu_timer;
  std::vector<ThreadName> thread_names;
  // What there was when the capture started, and what was made in it; sorted by their numbers. Empty in
  // imports.
  std::vector<DeviceContext> contexts;
  std::vector<DeviceStream> streams;
  std::vector<MemoryOp> memory_ops;  // where a capture asked for them; sorted by time
  std::vector<Loss> losses;
  // Graphs that ran without a record of their kernels (unseen_graphs.h): this rank's idle time is not idle.
  uint64_t unseen_graph_launches = 0;
  HostUnions unions;
  // Of the process: entries of one process share them. Null: they were not asked for
  // (trace::ReadOptions::host), or there were none.
  std::shared_ptr<const HostFrames> frames;
};

struct StepSpan {
  uint64_t first = 0;
  uint64_t count = 0;
  bool Holds(int64_t step) const {
    return step >= 0 && static_cast<uint64_t>(step) >= first && static_cast<uint64_t>(step) - first < count;
  }
  friend bool operator==(const StepSpan&, const StepSpan&) = default;
};

struct Capture {
  std::string id;
  std::string job;
  bool live = false;  // else imported
  int32_t world_size = 0;
  // Ranks of the world that were never seen, and ranks that were asked and did not finish (text says why).
  std::vector<RankId> missing_ranks;
  // The steps that were asked for, by the numbers their marks carry; what was recorded around them leads in
  // and out.
  std::optional<StepSpan> wanted_steps;
  std::vector<std::string>
      notes;  // what the reader of the report must know: inferred ranks, damaged files, …

  std::vector<Host> hosts;
  std::vector<Group> groups;
  std::vector<RankData> ranks;  // sorted by rank, device, incarnation
  StringTable strings;

  std::string_view Text(NameId id) const { return strings.Text(id); }
};

// Puts a filled capture in order: sorts every table, names copies that have none, classifies communication
// kernels by name where no metadata did, gives every communication kernel its Collective, marks step ranges,
// and infers world size and groups that the source left out (one group of all ranks when nothing says
// otherwise). Idempotent.
void Finish(Capture& capture);

}  // namespace lockstep::store

#endif  // LOCKSTEP_AGGREGATOR_STORE_CAPTURE_H_
