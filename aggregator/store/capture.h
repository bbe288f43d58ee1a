// A capture in memory: what every rank did, as recorded. The one input of analysis, report and trace writers.
//
// Filled by: LoadRecords (our own records/) and the readers in aggregator/trace (Kineto, …), then Finish()ed once.
// After that it is read-only and may be read from any thread. Owns all it points to. Stamps are those of the rank's own
// host clock, unchanged: align::ClockModel maps them onto the job's clock when ranks are compared. A rank's own
// durations never go through that map.
#ifndef LOCKSTEP_AGGREGATOR_STORE_CAPTURE_H_
#define LOCKSTEP_AGGREGATOR_STORE_CAPTURE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "aggregator/store/collective_op.h"
#include "aggregator/store/string_table.h"
#include "common/base/ids.h"
#include "common/base/time.h"

namespace lockstep::store {

enum class ActivityKind : uint8_t { kKernel, kMemcpy, kMemset };

inline constexpr uint32_t kNone = 0xFFFFFFFF;

// One thing a device did. A zero-length one counts as a record, not as time.
struct DeviceActivity {
  HostTime start;
  HostTime end;
  NameId name;
  StreamId stream;
  CorrelationId correlation;  // 0: none
  uint32_t detail = kNone;    // into kernel_details (kernels) or copy_details (copies and sets); kNone: nothing known
  uint32_t collective = kNone;  // into collectives, for communication kernels
  ActivityKind kind = ActivityKind::kKernel;
  bool communication = false;  // metadata first, name second, the user's rule third
};

struct KernelDetail {
  uint32_t grid[3] = {};
  uint16_t block[3] = {};
  uint16_t registers = 0;
  uint32_t static_shared_bytes = 0;
  uint32_t dynamic_shared_bytes = 0;
  ContextId context;
  uint32_t graph = 0;
  uint64_t graph_node = 0;
  // As an imported trace states them; negative: unknown.
  float blocks_per_sm = -1;
  float warps_per_sm = -1;
  float occupancy_percent = -1;
};

struct CopyDetail {
  uint64_t bytes = 0;
  ContextId context;
  uint8_t copy_kind = 0;  // CUpti_ActivityMemcpyKind; 0 for sets and where unknown
  uint8_t src_kind = 0;
  uint8_t dst_kind = 0;
  uint32_t graph = 0;
  uint64_t graph_node = 0;
};

// A runtime or driver call of a host thread.
struct ApiCall {
  HostTime start;
  HostTime end;
  NameId name;
  CorrelationId correlation;
  ThreadId thread;
  uint32_t cbid = 0;
  bool driver = false;
};

// CUPTI's numbers for the type; a rank's wait for its own device, or a stream's wait for an event.
enum class SyncType : uint8_t { kUnknown = 0, kEvent = 1, kStreamWaitEvent = 2, kStream = 3, kContext = 4 };

struct Sync {
  HostTime start;
  HostTime end;
  CorrelationId correlation;
  StreamId stream;  // kNone: does not apply
  uint32_t event = kNone;
  SyncType type = SyncType::kUnknown;
};

// cudaEventRecord: what a Sync with this `event` waits for is the work launched on `stream` before this call.
struct EventRecord {
  CorrelationId correlation;  // of its ApiCall, which says when
  StreamId stream;
  uint32_t event = kNone;
};

enum class RangeKind : uint8_t { kUser, kStep, kOperator };

// A named stretch of a host thread: an NVTX range, a user annotation, a step.
struct HostRange {
  HostTime start;
  HostTime end;
  NameId name;
  NameId domain;
  ThreadId thread;
  uint32_t depth = 0;
  RangeKind kind = RangeKind::kUser;
  bool start_unknown = false;  // opened before the window: start is the window's
  bool end_unknown = false;    // still open at its end: end is the window's
};

// How sure it is which ranks a communication kernel belongs with, best first.
enum class MatchSource : uint8_t { kNcclSequence, kGroupSequence, kGraph, kOrder };

// One communication kernel of one rank and what is known of it. Several collectives in one kernel are several of these
// with the same activity.
struct Collective {
  uint32_t activity = kNone;  // into activities
  uint32_t group = kNone;     // into Capture::groups; kNone: unknown
  CollectiveOp op = CollectiveOp::kUnknown;
  MatchSource source = MatchSource::kOrder;
  int64_t sequence = -1;  // per (group, op) for kNcclSequence, per group for kGroupSequence; -1: none
  int64_t bytes = -1;     // per rank, in NCCL's convention for `count`; -1: unknown
  int32_t root = -1;      // rank in the group of a rooted operation
  int32_t peer = -1;      // rank in the group of a send or receive
  NameId datatype;
};

// How a capture knows a group: its source named it; nothing did, and one group of all ranks stands for whatever there was; or
// align::InferGroups found it by who meets whom.
enum class GroupOrigin : uint8_t { kStated, kAssumed, kInferred };

// A communicator. Its identity is `key` with the member list, not its name.
struct Group {
  std::string key;
  std::string name;
  // World ranks in the order of their rank in the group; empty where unknown.
  std::vector<RankId> members;
  int32_t size = 0;  // 0: unknown
  GroupOrigin origin = GroupOrigin::kStated;
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
  std::string name;  // shown
  std::vector<ClockExchange> exchanges;
};

struct Loss {
  std::string stage;  // as in report.json
  std::string kind;   // "kernel", …; empty where the loser cannot tell
  uint64_t records = 0;
  std::string reason;
  HostTime from;
  HostTime to;
};

struct DeviceProperties {
  std::string name;
  int32_t sms = 0;  // 0: unknown, as the others
  int32_t compute_major = 0;
  int32_t compute_minor = 0;
  int32_t max_threads_per_sm = 0;
  int32_t registers_per_sm = 0;
  uint64_t shared_bytes_per_sm = 0;
  uint64_t memory_bytes = 0;
};

// Unions of host activity that an import saw and did not keep row by row; sorted, disjoint. Empty in live captures.
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
  std::vector<ApiCall> api_calls;        // sorted by start
  std::vector<Sync> syncs;               // sorted by start
  std::vector<EventRecord> event_records;  // in any order; may be empty: waits are then inferred from times
  std::vector<HostRange> ranges;         // sorted by start
  std::vector<Collective> collectives;   // sorted by the start of their activity
  std::vector<ClockReading> clocks;      // sorted
  std::vector<Loss> losses;
  HostUnions unions;
};

struct Capture {
  std::string id;
  std::string job;
  bool live = false;  // else imported
  int32_t world_size = 0;
  // Ranks of the world that were never seen, and ranks that were asked and did not finish (text says why).
  std::vector<RankId> missing_ranks;
  std::vector<std::string> notes;  // what the reader of the report must know: inferred ranks, damaged files, …

  std::vector<Host> hosts;
  std::vector<Group> groups;
  std::vector<RankData> ranks;  // sorted by rank, device, incarnation
  StringTable strings;

  std::string_view Text(NameId id) const { return strings.Text(id); }
};

// Puts a filled capture in order: sorts every table, classifies communication kernels by name where no metadata did,
// gives every communication kernel its Collective, marks step ranges, and infers world size and groups that the source left
// out (one group of all ranks when nothing says otherwise). Idempotent.
void Finish(Capture& capture);

}  // namespace lockstep::store

#endif  // LOCKSTEP_AGGREGATOR_STORE_CAPTURE_H_
