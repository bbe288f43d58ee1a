// Ring records: what the client writes and the daemon reads, byte for byte.
//
// Every record starts with a RecordHeader and is a multiple of 8 bytes long. All stamps are nanoseconds on
// the clock CUPTI uses in that process (CLOCK_REALTIME of the host, unless ClockRecord says otherwise). A
// record is complete when it is visible: the writer publishes it with one release store of the ring's head
// (layout.h).
//
// Version rule: kLayoutMajor changes when a reader of the old layout would misread the new one; kLayoutMinor
// when a field or a kind is appended. A record is never shortened; a reader skips kinds it does not know and
// bytes after the fields it knows. Document: docs/formats/ring.md. Golden file: tests/golden/ring/.
//
// Strings travel once: a kString record defines (epoch, id) ahead of the first record that uses the id. An id
// counts as defined only when its kString record was really written (a full ring drops both, the next use
// tries again).
#ifndef LOCKSTEP_COMMON_RING_RECORD_H_
#define LOCKSTEP_COMMON_RING_RECORD_H_

#include <cstddef>
#include <cstdint>

namespace lockstep::ring {

enum class RecordKind : uint16_t {
  kPad = 0,  // fills the end of a ring before it wraps; only header.bytes is meant
  kString = 1,
  kKernel = 2,
  kMemcpy = 3,
  kMemset = 4,
  kApi = 5,
  kSync = 6,
  kExternalCorrelation = 7,
  kCudaEvent = 8,
  kOverhead = 9,
  kRange = 10,
  kCommunicator = 11,
  kCollective = 12,
  kPointToPoint = 13,
  kClock = 14,
  kKernelChannel = 15,  // from here on minor version 1
  kProxyOp = 16,
  kThreadName = 17,
  kDevice = 18,  // from here on minor version 2
  kContext = 19,
  kStream = 20,
  kMemoryOp = 21,
};
inline constexpr size_t kRecordKinds = 22;

// Why a record that was made is not in the ring. One counter per (reason, kind) in the segment header.
// kCuptiDropped cannot name a kind (CUPTI does not tell) and is counted under kPad.
enum class LossReason : uint8_t {
  kRingFull = 0,      // the daemon did not drain fast enough: newest dropped
  kNoRing = 1,        // all 64 rings were taken
  kCuptiDropped = 2,  // CUPTI's own count
  kBadStamp = 3,      // start or end is zero, or end < start
  kTooLarge = 4,     // a string above kMaxStringBytes (kept, cut) or a record above kMaxRecordBytes (dropped)
  kUnknownKind = 5,  // CUPTI gave a record this client does not convert
  kNoPlace = 6,      // more of them were open at a time than the client has places for; minor version 1
  kContested = 7,    // another profiler took CUPTI over: how many nobody can tell, so 1; counted under kPad
};
inline constexpr size_t kLossReasons = 8;

inline constexpr uint32_t kMaxRecordBytes = 16 * 1024;
inline constexpr uint32_t kMaxStringBytes = kMaxRecordBytes - 64;

struct RecordHeader {
  RecordKind kind;
  uint16_t flags;  // per kind, 0 where none is named
  uint32_t bytes;  // whole record with this header, multiple of 8
};
static_assert(sizeof(RecordHeader) == 8);

// Followed by `length` bytes of UTF-8 (not checked by the client) and padding.
struct StringRecord {
  RecordHeader header;
  uint32_t id;
  uint32_t length;
};
static_assert(sizeof(StringRecord) == 16);

struct KernelRecord {
  RecordHeader header;
  int64_t start_ns;
  int64_t end_ns;
  uint32_t correlation;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t name;  // string id, 0 = lost
  uint32_t grid[3];
  uint16_t block[3];
  uint16_t registers;
  uint32_t static_shared_bytes;
  uint32_t dynamic_shared_bytes;
  uint64_t graph_node;
  uint32_t graph;
  uint32_t channel;
};
static_assert(sizeof(KernelRecord) == 88);

inline constexpr uint16_t kMemcpyPeer = 1;  // header.flags: src_device and dst_device are meant

struct MemcpyRecord {
  RecordHeader header;
  int64_t start_ns;
  int64_t end_ns;
  uint64_t bytes;
  uint32_t correlation;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint64_t graph_node;
  uint32_t graph;
  uint8_t copy_kind;  // CUpti_ActivityMemcpyKind
  uint8_t src_kind;   // CUpti_ActivityMemoryKind
  uint8_t dst_kind;
  uint8_t copy_flags;  // bit 0: asynchronous
  uint32_t src_device;
  uint32_t dst_device;
};
static_assert(sizeof(MemcpyRecord) == 72);

struct MemsetRecord {
  RecordHeader header;
  int64_t start_ns;
  int64_t end_ns;
  uint64_t bytes;
  uint32_t correlation;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint64_t graph_node;
  uint32_t graph;
  uint32_t value;
  uint16_t memory_kind;
  uint16_t reserved0;
  uint32_t reserved1;
};
static_assert(sizeof(MemsetRecord) == 72);

inline constexpr uint16_t kApiDriver = 1;  // header.flags: a driver call, else a runtime call

struct ApiRecord {
  RecordHeader header;
  int64_t start_ns;
  int64_t end_ns;
  uint32_t correlation;
  uint32_t cbid;    // CUPTI callback id
  uint32_t thread;  // gettid
  uint32_t result;
  uint32_t name;  // string id of the function's name (cuptiGetCallbackName), 0 = unknown
  uint32_t reserved0;
};
static_assert(sizeof(ApiRecord) == 48);

struct SyncRecord {
  RecordHeader header;
  int64_t start_ns;
  int64_t end_ns;
  uint32_t correlation;
  uint32_t context;
  uint32_t stream;  // 0xFFFFFFFF: does not apply
  uint32_t type;    // CUPTI: 1 event sync, 2 stream wait event, 3 stream sync, 4 context sync
  uint32_t event;   // 0xFFFFFFFF: does not apply
  uint32_t reserved0;
};
static_assert(sizeof(SyncRecord) == 48);

// `external` was pushed around the call with this correlation. kind 5 (CUSTOM2) is ours: a collective's
// launch serial.
struct ExternalCorrelationRecord {
  RecordHeader header;
  uint64_t external;
  uint32_t correlation;
  uint32_t external_kind;
};
static_assert(sizeof(ExternalCorrelationRecord) == 24);

struct CudaEventRecord {
  RecordHeader header;
  int64_t device_ns;  // 0 where CUPTI does not give it
  uint32_t correlation;
  uint32_t context;
  uint32_t stream;
  uint32_t event;
};
static_assert(sizeof(CudaEventRecord) == 32);

struct OverheadRecord {
  RecordHeader header;
  int64_t start_ns;
  int64_t end_ns;
  uint32_t overhead_kind;
  uint32_t thread;
};
static_assert(sizeof(OverheadRecord) == 32);

inline constexpr uint16_t kRangeStartUnknown =
    1;  // header.flags: it was pushed before the window; start_ns is 0
inline constexpr uint16_t kRangeEndUnknown = 2;  // it was still open when the window ended; end_ns is 0
inline constexpr uint16_t kRangeMark = 4;        // an instant: start_ns == end_ns

// An NVTX range or mark, or a step of lockstep.h.
struct RangeRecord {
  RecordHeader header;
  int64_t start_ns;
  int64_t end_ns;
  uint32_t name;
  uint32_t domain;  // string id of the NVTX domain, 0 = the default domain
  uint32_t thread;
  uint32_t depth;    // nesting on this thread, 0 = outermost
  uint64_t payload;  // 0 where none
};
static_assert(sizeof(RangeRecord) == 48);

// One NCCL communicator of this rank: written when it becomes known during a capture, and for every known one
// when a capture starts.
struct CommunicatorRecord {
  RecordHeader header;
  uint64_t comm;  // NCCL's id (commHash), the same on all members
  uint32_t name;
  int32_t rank;   // of this process in the communicator; -1: unknown
  int32_t ranks;  // 0: unknown
  int32_t nodes;  // 0: unknown
  // Minor version 1.
  uint32_t device_plus_1;  // CUDA ordinal + 1; 0: unknown
  uint32_t reserved0;
};
static_assert(sizeof(CommunicatorRecord) == 40);

// header.flags of collectives and point-to-point operations: described by NCCL's NVTX payload, not by its
// profiler plugin. Then `bytes` is meant, and count, datatype, algorithm, protocol, channels and a
// collective's sequence are not.
inline constexpr uint16_t kFromNvtx = 2;
// header.flags of collectives: `sequence` counts the events of this rank only (NCCL before 2.26), so that
// other ranks may have other numbers for the same operation.
inline constexpr uint16_t kSequenceIsLocal = 4;

// One collective of this rank as NCCL's profiler plugin describes it, or its NVTX payload (kFromNvtx). Joined
// to its kernels through `launch`: ExternalCorrelationRecord{external_kind 5, external == launch}.
struct CollectiveRecord {
  RecordHeader header;
  int64_t enqueued_ns;
  uint64_t comm;
  uint64_t sequence;  // NCCL's, per (comm, function)
  uint64_t launch;    // our launch serial, 0 = none known
  uint64_t count;     // elements, as NCCL reports them
  uint32_t function;  // string id: "AllReduce", …
  uint32_t datatype;  // string id: "ncclFloat32", …
  uint32_t algorithm;
  uint32_t protocol;
  int32_t root;
  uint32_t channels;
  // Minor version 1.
  uint64_t bytes;      // only with kFromNvtx: NCCL's count in bytes
  uint64_t operation;  // our number for it in this process: what KernelChannelRecord and ProxyOpRecord name;
                       // 0: none
  uint32_t reduction;  // string id: "Sum", …; 0: not a reduction, or unknown
  uint32_t reserved0;
};
static_assert(sizeof(CollectiveRecord) == 96);

inline constexpr uint16_t kP2pSend = 1;  // header.flags: a send, else a receive

struct PointToPointRecord {
  RecordHeader header;
  int64_t enqueued_ns;
  uint64_t comm;
  uint64_t sequence;  // counted by the client per (comm, peer, direction), from 0
  uint64_t launch;
  uint64_t count;
  uint32_t datatype;
  int32_t peer;  // rank in the communicator
  // Minor version 1; as in CollectiveRecord.
  uint64_t bytes;
  uint64_t operation;
};
static_assert(sizeof(PointToPointRecord) == 72);

// All clocks of the host read together, best of many by the gap between the first and the last reading.
// Written at the start of a capture, every second and at its end.
struct ClockRecord {
  RecordHeader header;
  int64_t realtime_ns;
  int64_t monotonic_ns;
  int64_t monotonic_raw_ns;
  uint64_t tsc;
  int64_t cupti_ns;  // cuptiGetTimestamp, 0 where CUPTI is not open
  int64_t gap_ns;    // time between first and last reading: the error of the set
};
static_assert(sizeof(ClockRecord) == 56);

// One channel of a collective's kernel: the time the GPU worked on it. A kernel may tell of fewer channels
// than it used. The GPU's stamps are those of its globaltimer, a clock of its own; host stamps say when
// NCCL's proxy thread saw them.
struct KernelChannelRecord {
  RecordHeader header;
  int64_t start_ns;
  int64_t end_ns;
  uint64_t gpu_start_ns;  // globaltimer; 0: not told (NCCL 2.26)
  uint64_t gpu_end_ns;
  uint64_t comm;
  uint64_t operation;  // CollectiveRecord or PointToPointRecord with this number; 0: none known
  uint32_t channel;
  uint32_t reserved0;
};
static_assert(sizeof(KernelChannelRecord) == 64);

inline constexpr uint16_t kProxySend = 1;  // header.flags: it sends, else it receives
inline constexpr uint16_t kProxyRemote =
    2;  // header.flags: on behalf of another process (PXN); operation is 0

// One operation of NCCL's network proxy: a channel's share of a collective or message to or from one peer.
// The waits are sums over its steps, of which several are in flight at a time: they may exceed its duration.
struct ProxyOpRecord {
  RecordHeader header;
  int64_t start_ns;
  int64_t end_ns;
  uint64_t comm;
  uint64_t operation;  // as in KernelChannelRecord
  int32_t peer;        // rank in the communicator
  uint32_t channel;
  uint32_t steps;        // as announced
  uint32_t chunk_bytes;  // of one step, at most
  uint32_t steps_seen;   // those the sums below are of
  uint32_t reserved0;
  uint64_t bytes;           // handed to the network, or received from it
  int64_t gpu_wait_ns;      // for the GPU to fill (send) or empty (receive) a buffer
  int64_t peer_wait_ns;     // for the peer to have room (send)
  int64_t network_wait_ns;  // for the network to take (send) or bring (receive) the data
  int64_t flush_wait_ns;    // for received data to reach the GPU's memory
};
static_assert(sizeof(ProxyOpRecord) == 104);

// A host thread's name, as the application gave it to NVTX.
struct ThreadNameRecord {
  RecordHeader header;
  uint32_t thread;  // gettid
  uint32_t name;
};
static_assert(sizeof(ThreadNameRecord) == 16);

inline constexpr uint16_t kDeviceHidden =
    1;  // header.flags: this process cannot use it (CUDA_VISIBLE_DEVICES)
inline constexpr uint16_t kDeviceMig =
    2;  // header.flags: it is divided; mig_uuid and the instances say which part this is
inline constexpr uint16_t kDeviceEcc = 4;  // header.flags: its memory corrects errors

// A device of the process. Devices, contexts and streams have no stamps: those that there are when a capture
// starts are told of then, later ones when they are made.
struct DeviceRecord {
  RecordHeader header;
  uint32_t device;  // as in KernelRecord
  uint32_t name;
  uint64_t memory_bytes;
  uint64_t memory_bytes_per_s;
  uint32_t clock_khz;  // of the multiprocessors, at most
  uint32_t multiprocessors;
  uint32_t compute_major;
  uint32_t compute_minor;
  uint32_t l2_bytes;
  uint32_t copy_engines;
  uint32_t threads_per_warp;
  uint32_t warps_per_multiprocessor;
  uint32_t shared_bytes_per_multiprocessor;
  uint32_t registers_per_multiprocessor;
  uint8_t uuid[16];
  uint8_t mig_uuid[16];
  uint32_t gpu_instance;
  uint32_t compute_instance;
  uint32_t numa_node_plus_1;  // that its memory is; 0: none, or unknown
  uint32_t reserved0;
};
static_assert(sizeof(DeviceRecord) == 120);

inline constexpr uint16_t kContextGreen = 1;  // header.flags: it has a share of the multiprocessors

struct ContextRecord {
  RecordHeader header;
  uint32_t context;
  uint32_t device;
  uint32_t api;  // 1 CUDA, 2 CUDA under MPS
  uint32_t null_stream;
  uint32_t parent;           // context; 0: none
  uint32_t multiprocessors;  // 0: unknown
};
static_assert(sizeof(ContextRecord) == 32);

struct StreamRecord {
  RecordHeader header;
  uint32_t context;
  uint32_t stream;
  int32_t priority;  // the smaller, the earlier
  uint32_t type;     // CUPTI: 1 waits for the default stream, 2 does not, 3 is a default stream
};
static_assert(sizeof(StreamRecord) == 24);

inline constexpr uint16_t kMemoryRelease = 1;  // header.flags: a release, else an allocation
inline constexpr uint16_t kMemoryAsync = 2;    // header.flags: in the order of `stream`, which is then meant

// One end of the life of a block of memory: cudaMalloc, cudaFree and their like. Only where a capture asks
// for them.
struct MemoryOpRecord {
  RecordHeader header;
  int64_t time_ns;
  uint64_t address;
  uint64_t bytes;
  uint64_t pool_address;  // 0: from no pool
  uint64_t pool_bytes;    // this and the next only of the process's own pools
  uint64_t pool_used_bytes;
  uint32_t correlation;
  uint32_t device;
  uint32_t context;     // 0xFFFFFFFF: none
  uint32_t stream;      // 0xFFFFFFFF: does not apply
  uint8_t memory_kind;  // CUpti_ActivityMemoryKind
  uint8_t pool_type;    // CUPTI: 0 none, 1 the process's own, 2 another process's
  uint16_t reserved0;
  uint32_t reserved1;
};
static_assert(sizeof(MemoryOpRecord) == 80);

}  // namespace lockstep::ring

#endif  // LOCKSTEP_COMMON_RING_RECORD_H_
