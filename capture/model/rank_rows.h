// The rows of a rank's tables, as recorded: activities of its device, calls and waits of its host threads,
// and the known facts of its communication. Plain values, read-only after Finish(). capture.h holds the
// tables.
//
// Time stamps are those of the rank's own host clock. Rows refer to each other by index in the tables of the
// same rank.
#ifndef LOCKSTEP_CAPTURE_MODEL_RANK_ROWS_H_
#define LOCKSTEP_CAPTURE_MODEL_RANK_ROWS_H_

#include <cstdint>

#include "base/ids.h"
#include "base/time.h"
#include "capture/model/collective_op.h"

namespace lockstep::capture {

enum class ActivityKind : uint8_t { kKernel, kMemcpy, kMemset };

inline constexpr uint32_t kNone = 0xFFFFFFFF;

// The use of a device's time. kMemory: copies and sets.
enum class WorkType : uint8_t { kCompute, kCommunication, kMemory };

// One operation on a device. A zero-length one counts as a record but adds no time.
struct DeviceActivity {
  HostTime start;
  HostTime end;
  NameId name;
  StreamId stream;
  CorrelationId correlation;  // 0 outside a VirtualNow
  uint32_t detail =
      kNone;  // index into kernel_details (kernels) or copy_details (copies and sets); kNone: unknown
  uint32_t collective = kNone;  // index into collectives, for communication kernels
  ActivityKind kind = ActivityKind::kKernel;
  // For a kernel: decided by metadata first, the name second, the user's rule third. For a copy: it is part
  // of a collective on the copy engines.
  bool communication = false;

  WorkType type() const {
    if (communication) return WorkType::kCommunication;
    return kind == ActivityKind::kKernel ? WorkType::kCompute : WorkType::kMemory;
  }
};

struct KernelDetail {
  uint32_t grid[3] = {};
  uint16_t block[3] = {};
#define KEPT(type, member, column, text, index, encoding, zero, unit, meaning) type member = 0;
#include "wire/fields/kernel.def"
  ContextId context;
  uint32_t graph = 0;
  uint64_t graph_node = 0;
  // Values that an imported trace states; negative: unknown.
  float blocks_per_sm = -1;
  float warps_per_sm = -1;
  float occupancy_percent = -1;

  friend bool operator==(const KernelDetail&, const KernelDetail&) = default;
};

struct CopyDetail {
  uint64_t bytes = 0;
  double bandwidth_gb_per_s = 0;  // as the source states it; 0: not stated
  ContextId context;
  uint8_t copy_kind = 0;  // CUpti_ActivityMemcpyKind; 0 for sets, and if unknown
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
#define KEPT(type, member, column, text, index, encoding, zero, unit, meaning) type member = 0;
#include "wire/fields/api.def"
  bool driver = false;
};

// CUPTI's numbers for the type of a wait. A rank waits for its own device, or a stream waits for an event.
enum class SyncType : uint8_t { kUnknown = 0, kEvent = 1, kStreamWaitEvent = 2, kStream = 3, kContext = 4 };

struct Sync {
  HostTime start;
  HostTime end;
  CorrelationId correlation;
  StreamId stream;  // kNone: does not apply
  uint32_t event = kNone;
  SyncType type = SyncType::kUnknown;
};

// cudaEventRecord. A Sync with this `event` waits for the work that was launched on `stream` before this
// call.
struct EventRecord {
  CorrelationId correlation;  // of its ApiCall, which has the time
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
  bool start_unknown = false;  // opened before the window; start is the window's start
  bool end_unknown = false;    // still open at the window's end; end is the window's end
};

// Evidence for the partners of a communication kernel, most reliable first. kCopyEngine: the operation has no
// kernel. Its copies begin when all members have come and end independently of each other, so its partners
// are not needed.
enum class MatchSource : uint8_t { kNcclSequence, kGroupSequence, kGraph, kOrder, kCopyEngine };

// One communication kernel of one rank, with its known facts. Several collectives in one kernel are several
// rows with the same activity. A collective on the copy engines has its longest copy as its activity.
struct Collective {
  uint32_t activity = kNone;  // into activities
  uint32_t group = kNone;     // into Capture::groups; kNone: unknown
  CollectiveOp op = CollectiveOp::kUnknown;
  MatchSource source = MatchSource::kOrder;
  int64_t sequence = -1;  // per (group, op) for kNcclSequence, per group for kGroupSequence; -1: none
  int64_t bytes = -1;     // per rank, in NCCL's convention for `count`; -1: unknown
  // For an all-to-all of unequal sizes, if the source states it; -1: unknown.
  int64_t received_bytes = -1;
  int32_t root = -1;  // rank in the group of a rooted operation
  int32_t peer = -1;  // rank in the group of a send or receive
  NameId datatype;
  NameId reduction;        // "Sum", …, if the source states it
  uint64_t operation = 0;  // the process's own number, which ChannelTiming and ProxyOp refer to; 0: none
};

// Work of one channel of a communication kernel. A kernel may report fewer channels than it used.
struct ChannelTiming {
  HostTime start;  // from the GPU's own stamps, mapped by RankData::gpu_timer if that is known
  HostTime end;
  uint64_t operation = 0;  // Collective::operation; 0: unknown
  uint32_t channel = 0;
  bool on_gpu_clock =
      false;  // true: the GPU measured the length; false: the stamps are those of NCCL's proxy thread
};

// The host clock minus the GPU's globaltimer, as the median over kernels with both times.
struct GpuTimer {
  Nanos offset;
  Nanos spread;          // median distance of these kernels from the offset
  uint32_t kernels = 0;  // 0: unknown
};

// One channel's part of an operation in NCCL's network proxy. The waits are sums over steps that are in
// flight together, so they may exceed the length.
struct ProxyOp {
  HostTime start;
  HostTime end;
  uint64_t operation = 0;  // Collective::operation; 0: unknown, or of another process
  uint32_t group = kNone;  // into Capture::groups
  int32_t peer = -1;       // rank in the group
  uint32_t channel = 0;
  uint32_t steps = 0;       // as NCCL announced them
  uint32_t steps_seen = 0;  // steps that the sums contain
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

// A context of the process. It is on the rank's device. The process's only or busiest entry also lists
// contexts on devices that did nothing.
struct DeviceContext {
  ContextId context;
  DeviceId device;
  StreamId null_stream;
  ContextId parent;              // 0 outside a VirtualNow
  uint32_t multiprocessors = 0;  // 0: unknown
  bool green = false;            // has a share of the multiprocessors
  bool mps = false;              // under CUDA's Multi-Process Service
};

// CUPTI's numbers. kBlocking: this stream and the default stream wait for each other. kNonBlocking: they do
// not. kDefault: a default stream.
enum class StreamType : uint8_t { kUnknown = 0, kBlocking = 1, kNonBlocking = 2, kDefault = 3 };

struct DeviceStream {
  ContextId context;
  StreamId stream;
  int32_t priority = 0;  // a smaller number has precedence
  StreamType type = StreamType::kUnknown;
};

// CUPTI's numbers: memory from no pool, from a pool of the process, or from a pool of another process.
enum class MemoryPoolType : uint8_t { kNone = 0, kOwn = 1, kImported = 2 };

// cudaMalloc, cudaFree and similar calls.
struct MemoryOp {
  HostTime time;
  CorrelationId correlation;
#define KEPT(type, member, column, text, index, encoding, zero, unit, meaning) type member = 0;
#include "wire/fields/memory_op.def"
  ContextId context;  // kNone: none
  StreamId stream;    // kNone: not asynchronous
  uint64_t pool_address = 0;
  uint64_t pool_bytes = 0;       // this and pool_used_bytes only with kOwn
  uint64_t pool_used_bytes = 0;  // 0 also if CUPTI does not report it
  MemoryPoolType pool = MemoryPoolType::kNone;
  bool release = false;  // false: an allocation
};

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_MODEL_RANK_ROWS_H_
