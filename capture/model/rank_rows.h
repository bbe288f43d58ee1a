// The rows of a rank's tables, as recorded: what its device did, what its host threads called and waited for,
// and what is known of its communication. Plain values, read-only once the capture is Finish()ed (capture.h,
// which holds the tables).
//
// Stamps are those of the rank's own host clock. Rows name each other by place in the tables of the same
// rank.
#ifndef LOCKSTEP_AGGREGATOR_STORE_RANK_ROWS_H_
#define LOCKSTEP_AGGREGATOR_STORE_RANK_ROWS_H_

#include <cstdint>

#include "base/ids.h"
#include "base/time.h"
#include "capture/model/collective_op.h"

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
  uint32_t detail =
      kNone;  // into kernel_details (kernels) or copy_details (copies and sets); kNone: nothing known
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

// One communication kernel of one rank and what is known of it. Several collectives in one kernel are several
// of these with the same activity.
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
  NameId reduction;        // "Sum", …, where the source tells
  uint64_t operation = 0;  // the process's own number for it: what ChannelTiming and ProxyOp name; 0: none
};

// One channel of a communication kernel at work. A kernel may tell of fewer channels than it used.
struct ChannelTiming {
  HostTime start;  // of the GPU's own stamps, mapped by RankData::gpu_timer where that is known
  HostTime end;
  uint64_t operation = 0;  // Collective::operation; 0: not known
  uint32_t channel = 0;
  bool on_gpu_clock = false;  // the length is the GPU's; else the stamps are those of NCCL's proxy thread
};

// The host clock minus the GPU's globaltimer: the median over the kernels of which both were seen.
struct GpuTimer {
  Nanos offset;
  Nanos spread;          // median distance of those from it
  uint32_t kernels = 0;  // 0: unknown
};

// A channel's share of an operation in NCCL's network proxy. The waits are sums over steps in flight
// together: they may exceed the length.
struct ProxyOp {
  HostTime start;
  HostTime end;
  uint64_t operation = 0;  // Collective::operation; 0: not known, or another process's
  uint32_t group = kNone;  // into Capture::groups
  int32_t peer = -1;       // rank in the group
  uint32_t channel = 0;
  uint32_t steps = 0;       // as announced
  uint32_t steps_seen = 0;  // those the sums are of
  uint64_t bytes = 0;
  Nanos gpu_wait;      // for the GPU to fill (send) or empty (receive) a buffer
  Nanos peer_wait;     // for the peer to have room (send)
  Nanos network_wait;  // for the network to take or bring the data
  Nanos flush_wait;    // for received data to reach the GPU's memory
  bool is_send = false;
};

// A host thread's name, as the application gave it.
struct ThreadName {
  ThreadId thread;
  NameId name;
};

// A context of the process: on the rank's device or, in its only or busiest entry, on one that did nothing.
struct DeviceContext {
  ContextId context;
  DeviceId device;
  StreamId null_stream;
  ContextId parent;              // 0: none
  uint32_t multiprocessors = 0;  // 0: unknown
  bool green = false;            // it has a share of the multiprocessors
  bool mps = false;              // under CUDA's Multi-Process Service
};

// As CUPTI numbers them: a stream that waits for the default stream and it for this one, one that does not, a
// default stream.
enum class StreamType : uint8_t { kUnknown = 0, kBlocking = 1, kNonBlocking = 2, kDefault = 3 };

struct DeviceStream {
  ContextId context;
  StreamId stream;
  int32_t priority = 0;  // the smaller, the earlier
  StreamType type = StreamType::kUnknown;
};

// CUPTI's numbers: from no pool, from one of the process's own, from another process's.
enum class MemoryPoolType : uint8_t { kNone = 0, kOwn = 1, kImported = 2 };

// cudaMalloc, cudaFree and their like.
struct MemoryOp {
  HostTime time;
  CorrelationId correlation;
  uint64_t address = 0;
  uint64_t bytes = 0;
  ContextId context;  // kNone: none
  StreamId stream;    // kNone: not asynchronous
  uint64_t pool_address = 0;
  uint64_t pool_bytes = 0;       // this and the next only with kOwn
  uint64_t pool_used_bytes = 0;  // 0 also where CUPTI does not tell
  uint8_t memory_kind = 0;       // CUpti_ActivityMemoryKind
  MemoryPoolType pool = MemoryPoolType::kNone;
  bool release = false;  // else an allocation
};

}  // namespace lockstep::store

#endif  // LOCKSTEP_AGGREGATOR_STORE_RANK_ROWS_H_
