// A capture in memory: the recorded activity of every rank. It is the only input of analysis, report and
// trace writers.
//
// LoadRecords (for records/) or a reader in formats (Kineto, …) fills it, and Finish() completes it once.
// After that it is read-only, so any thread may read it. It owns all its data. Time stamps are those of the
// rank's own host clock, unchanged. capture::ClockModel maps them to the job's clock when ranks are compared.
// Durations of one rank are never mapped.
#ifndef LOCKSTEP_CAPTURE_MODEL_CAPTURE_H_
#define LOCKSTEP_CAPTURE_MODEL_CAPTURE_H_

#include <algorithm>
#include <cstdint>
#include <limits>
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

namespace lockstep::capture {

// Origin of a group. A stated group is named by the source. An assumed group contains all ranks, because no
// source names any group. capture::InferGroups finds an inferred group by the ranks that leave together.
enum class GroupOrigin : uint8_t { kStated, kAssumed, kInferred };

// A communicator. Its identity is `key` with the member list, not its name.
struct Group {
  std::string key;
  std::string name;
  // World ranks in the order of their rank in the group; empty where unknown.
  std::vector<RankId> members;
  int32_t size = 0;  // 0: unknown
  GroupOrigin origin = GroupOrigin::kStated;
  bool uncertain = false;  // inferred, and another grouping fits nearly as well

  const std::string& ShownName() const { return name.empty() ? key : name; }
};

// One reading of all clocks of the host.
struct ClockReading {
  HostTime realtime;
  MonoTime monotonic;
  int64_t monotonic_raw_ns = 0;
  uint64_t tsc = 0;
  HostTime cupti;  // 0: not read
  Nanos gap;
};

// A stamp farther from 0 than this is not a time. Sums of two differences of nearer stamps fit 64 bits.
inline constexpr int64_t kFarthestStampNs = std::numeric_limits<int64_t>::max() / 4;
constexpr bool IsTime(int64_t stamp_ns) {
  return stamp_ns >= -kFarthestStampNs && stamp_ns <= kFarthestStampNs;
}

// One exchange between a host's daemon (t1, t4) and the aggregator (t2, t3).
struct ClockExchange {
  HostTime t1;
  JobTime t2;
  JobTime t3;
  HostTime t4;
  MonoTime monotonic;

  bool valid() const {
    return IsTime(t1.ns()) && IsTime(t2.ns()) && IsTime(t3.ns()) && IsTime(t4.ns()) && IsTime(monotonic.ns());
  }
};

// Ranks of one host share its clock.
struct Host {
  std::string id;    // node id
  std::string name;  // shown; empty: the source does not state it
  std::vector<ClockExchange> exchanges;

  const std::string& ShownName() const { return name.empty() ? id : name; }
};

// One record per nanosecond for nearly three hours. A loss that states more is cut to this number, so that
// sums over all ranks fit 64 bits.
inline constexpr uint64_t kMostLostRecords = 10'000'000'000'000;

struct Loss {
  std::string stage;     // as in report.json
  std::string kind;      // "kernel", …; empty if the stage does not know it
  uint64_t records = 0;  // at most kMostLostRecords
  std::string reason;
  HostTime from;
  HostTime to;
};

// Properties of the device that a rank runs on. A live capture has all of them, an import those in its file.
struct DeviceProperties {
  std::string name;
  std::string uuid;  // "GPU-…", or "MIG-…" for a part of a GPU, as nvidia-smi accepts it; empty: unknown
  int32_t sms = 0;   // 0: unknown, also for the other numbers
  int32_t compute_major = 0;
  int32_t compute_minor = 0;
  int32_t max_threads_per_sm = 0;
  int32_t registers_per_sm = 0;
  uint64_t shared_bytes_per_sm = 0;
  uint64_t memory_bytes = 0;
  uint64_t memory_bytes_per_s = 0;
  uint64_t l2_bytes = 0;
  uint32_t clock_khz = 0;  // highest clock of the multiprocessors
  int32_t numa_node = -1;  // of its memory; -1: none, or unknown
  bool ecc = false;
};

// Unions of host activity that an import read but did not keep as rows; sorted, disjoint. Empty in live
// captures.
struct HostUnions {
  std::vector<HostInterval> operators;    // CPU operators
  std::vector<HostInterval> data_loader;  // operators and ranges of the data loader
};

// The data of one (rank, device, process).
struct RankData {
  RankId rank = kNoRank;
  uint32_t host = kNone;  // into Capture::hosts
  DeviceId device;
  int32_t pid = 0;
  uint32_t incarnation = 1;
  std::string program;
  // The interval that the capture asked for, on the host's clock. In an import: from the first to the last
  // time stamp of any row.
  HostInterval window;
  std::string source_file;  // imports
  // Source of the rank's number, for the report: for example "torchrun", or the name of the file.
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
  // Present if the capture asked for them (nccl-channels, nccl-proxy); sorted by start.
  std::vector<ChannelTiming> channel_timings;
  std::vector<ProxyOp> proxy_ops;
  GpuTimer gpu_timer;
  std::vector<ThreadName> thread_names;
  // Objects that existed when the capture started, or were created during it; sorted by their numbers. Empty
  // in imports.
  std::vector<DeviceContext> contexts;
  std::vector<DeviceStream> streams;
  std::vector<MemoryOp> memory_ops;  // present if the capture asked for them; sorted by time
  std::vector<Loss> losses;
  // Launches of graphs whose kernels have no records (unrecorded_graphs.h). This rank's idle time is then not
  // all idle.
  uint64_t unseen_graph_launches = 0;
  HostUnions unions;
  // Frames of the process, which its entries share. Null: they were not asked for
  // (formats::ReadOptions::host), or there were none.
  std::shared_ptr<const HostFrames> frames;
};

// Returns true if the rank's device has communication and nothing else, as in a capture of the past. What its
// device did between the collectives was then not recorded.
inline bool HasOnlyCommunication(const RankData& rank) {
  return !rank.activities.empty() && std::all_of(rank.activities.begin(), rank.activities.end(),
                                                 [](const DeviceActivity& a) { return a.communication; });
}

struct StepSpan {
  uint64_t first = 0;
  uint64_t count = 0;
  bool Holds(int64_t step) const {
    return step >= 0 && static_cast<uint64_t>(step) >= first && static_cast<uint64_t>(step) - first < count;
  }
  friend bool operator==(const StepSpan&, const StepSpan&) = default;
};

// A rank that the capture chose and that was not recorded in whole.
struct IncompleteRank {
  RankId rank = kNoRank;
  std::string reason;             // continues "rank 3: "
  std::optional<Nanos> asked;     // length of the window that was asked for; nullopt: not known
  std::optional<Nanos> recorded;  // part of it that was recorded; nullopt: not known
};

class RowOverflow;

struct Capture {
  std::string id;
  std::string job;
  bool live = false;  // false: imported
  int32_t world_size = 0;
  // Ranks of the world that were never seen, and ranks that were asked and did not finish (`notes` say why).
  std::vector<RankId> missing_ranks;
  // Sorted by rank; one entry per rank. A rank without any record is here only if it was to be recorded.
  std::vector<IncompleteRank> incomplete;
  // The steps that were asked for, by the numbers in their marks. Records outside these steps are the lead-in
  // and the lead-out.
  std::optional<StepSpan> wanted_steps;
  std::vector<std::string>
      notes;  // facts that the reader of the report needs: inferred ranks, damaged files, …

  std::vector<Host> hosts;
  std::vector<Group> groups;
  std::vector<RankData> ranks;  // sorted by rank, device, incarnation
  StringTable strings;

  std::string_view Text(NameId id) const { return strings.Text(id); }
  // Returns true if a rank is missing or incomplete, so that no statement holds for the whole job.
  bool partial() const { return !missing_ranks.empty() || !incomplete.empty(); }
};

// Completes a filled capture. Sorts every table, names copies that have no name, and classifies communication
// kernels by name where metadata is missing. Gives every communication kernel its Collective, and marks step
// ranges. Infers the world size and the groups that the source left out. Without other evidence, one group
// contains all ranks. Idempotent. `overflow` moves each rank once its tables are complete; null: they stay.
void Finish(Capture& capture, RowOverflow* overflow = nullptr);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_MODEL_CAPTURE_H_
