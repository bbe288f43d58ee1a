// CUPTI's activity records and their numbers. cupti.h includes this header.
//
// The layouts are those of CUDA 13.0 on x86-64. Every version since CUDA 9 has only appended fields, so a
// reader may read the first fields of an older, shorter record. The client asks the library for the real size
// of each kind.
//
// All stamps are nanoseconds on the clock of cuptiGetTimestamp; 0 means "not collected". Pointers in a record
// are valid only during the buffer's completion callback.
#ifndef LOCKSTEP_WIRE_FOREIGN_CUPTI_RECORDS_H_
#define LOCKSTEP_WIRE_FOREIGN_CUPTI_RECORDS_H_

#include <cstddef>
#include <cstdint>

namespace lockstep::foreign::cupti {

enum class ActivityKind : uint32_t {
  kInvalid = 0,
  kMemcpy = 1,
  kMemset = 2,
  kKernel = 3,  // it serialises the application's kernels, so the client never enables it
  kDriver = 4,
  kRuntime = 5,
  kDevice = 8,
  kContext = 9,
  kConcurrentKernel = 10,
  kMarker = 12,
  kOverhead = 17,
  kMemcpyPeer = 22,  // CUPTI calls it MEMCPY2
  kCudaEvent = 36,
  kStream = 37,
  kSynchronization = 38,
  kExternalCorrelation = 39,
  kInternalLaunchApi = 48,
  kMemory = 49,  // CUPTI calls it MEMORY2; one record per allocation or release
  kGraphTrace = 51,
};

enum class ExternalCorrelationKind : uint32_t {
  kInvalid = 0,
  kUnknown = 1,
  kOpenAcc = 2,
  kCustom0 = 3,  // PyTorch's Kineto uses 0 and 1
  kCustom1 = 4,
  kCustom2 = 5,  // ours
};

enum class SynchronizationType : uint32_t {
  kUnknown = 0,
  kEventSynchronize = 1,
  kStreamWaitEvent = 2,
  kStreamSynchronize = 3,
  kContextSynchronize = 4,
};
// In streamId and cudaEventId of Synchronization2: the field does not apply.
inline constexpr uint32_t kDoesNotApply = 0xFFFFFFFFu;

enum class MemcpyKind : uint8_t {
  kUnknown = 0,
  kHostToDevice = 1,
  kDeviceToHost = 2,
  kDeviceToDevice = 8,
  kHostToHost = 9,
  kPeerToPeer = 10,
};
enum class MemoryKind : uint8_t {
  kUnknown = 0,
  kPageable = 1,
  kPinned = 2,
  kDevice = 3,
  kArray = 4,
  kManaged = 5,
  kDeviceStatic = 6,
  kManagedStatic = 7,
};
enum class MemoryOperation : uint32_t { kInvalid = 0, kAllocation = 1, kRelease = 2 };
// kImported: the pool belongs to another process, by IPC.
enum class MemoryPool : uint32_t { kNone = 0, kLocal = 1, kImported = 2 };
// The flags of a stream. kNull is a context's default stream.
enum class StreamFlag : uint32_t { kUnknown = 0, kDefault = 1, kNonBlocking = 2, kNull = 3 };
enum class ComputeApi : uint16_t { kUnknown = 0, kCuda = 1, kCudaMps = 2 };
inline constexpr uint8_t kMemcpyFlagAsync = 1;
inline constexpr uint16_t kMemsetFlagAsync = 1;

enum class OverheadKind : uint32_t {
  kUnknown = 0,
  kDriverCompiler = 1,
  kBufferFlush = 1u << 16,
  kInstrumentation = 2u << 16,
  kResource = 3u << 16,
  kModuleLoading = 4u << 16,
  kLazyFunctionLoading = 5u << 16,
  kCommandBufferFull = 6u << 16,
  kActivityBufferRequest = 7u << 16,
};
enum class ObjectKind : uint32_t {
  kUnknown = 0,
  kProcess = 1,
  kThread = 2,
  kDevice = 3,
  kContext = 4,
  kStream = 5
};

// The alignment of each record in a buffer, in bytes.
inline constexpr size_t kRecordAlignment = 8;

struct Activity {
  ActivityKind kind;
};
static_assert(sizeof(Activity) == 4);

struct Kernel10 {
  ActivityKind kind;
  uint8_t cache_config;
  uint8_t shared_memory_config;
  uint16_t registers_per_thread;
  uint32_t global_cache_requested;
  uint32_t global_cache_executed;
  uint64_t start;
  uint64_t end;
  uint64_t completed;
  uint32_t device_id;
  uint32_t context_id;
  uint32_t stream_id;
  int32_t grid_x;
  int32_t grid_y;
  int32_t grid_z;
  int32_t block_x;
  int32_t block_y;
  int32_t block_z;
  int32_t static_shared_memory;
  int32_t dynamic_shared_memory;
  uint32_t local_memory_per_thread;
  uint32_t local_memory_total;
  uint32_t correlation_id;
  int64_t grid_id;
  const char* name;
  void* reserved0;
  uint64_t queued;
  uint64_t submitted;
  uint8_t launch_type;
  uint8_t carveout_requested_flag;
  uint8_t carveout_requested;
  uint8_t padding;
  uint32_t shared_memory_executed;
  // The fields from here on exist only in long enough records (bytes: Kernel5 160, 6 168, 7 176, 8 200, 9
  // 208).
  uint64_t graph_node_id;
  uint32_t shared_memory_limit_config;
  uint32_t graph_id;
  void* access_policy_window;
  uint32_t channel_id;
  uint32_t channel_type;
  uint32_t cluster_x;
  uint32_t cluster_y;
  uint32_t cluster_z;
  uint32_t cluster_scheduling_policy;
  uint64_t local_memory_total_64;
  uint32_t max_potential_cluster_size;
  uint32_t max_active_clusters;
  uint8_t is_device_launched;
  uint8_t padding3[7];
};
static_assert(sizeof(Kernel10) == 216);
static_assert(offsetof(Kernel10, start) == 16 && offsetof(Kernel10, correlation_id) == 92);
static_assert(offsetof(Kernel10, name) == 104 && offsetof(Kernel10, graph_node_id) == 144);
static_assert(offsetof(Kernel10, channel_id) == 168 && offsetof(Kernel10, is_device_launched) == 208);
// The shortest records, in bytes: in any version, with graph_node_id and graph_id, and with channel_id.
inline constexpr size_t kKernelBytesOldest = 144;
inline constexpr size_t kKernelBytesWithGraph = 160;
inline constexpr size_t kKernelBytesWithChannel = 176;

struct Memcpy6 {
  ActivityKind kind;
  uint8_t copy_kind;
  uint8_t src_kind;
  uint8_t dst_kind;
  uint8_t flags;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device_id;
  uint32_t context_id;
  uint32_t stream_id;
  uint32_t correlation_id;
  uint32_t runtime_correlation_id;
  uint32_t padding;
  void* reserved0;
  uint64_t graph_node_id;
  uint32_t graph_id;
  uint32_t channel_id;
  uint32_t channel_type;
  uint8_t is_device_launched;
  uint8_t padding2[3];
  uint64_t copy_count;
};
static_assert(sizeof(Memcpy6) == 96);
static_assert(offsetof(Memcpy6, correlation_id) == 44 && offsetof(Memcpy6, graph_node_id) == 64);
inline constexpr size_t kMemcpyBytesOldest = 64;
inline constexpr size_t kMemcpyBytesWithGraph = 80;  // with graph_node_id and graph_id

struct MemcpyPeer4 {
  ActivityKind kind;
  uint8_t copy_kind;
  uint8_t src_kind;
  uint8_t dst_kind;
  uint8_t flags;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device_id;
  uint32_t context_id;
  uint32_t stream_id;
  uint32_t src_device_id;
  uint32_t src_context_id;
  uint32_t dst_device_id;
  uint32_t dst_context_id;
  uint32_t correlation_id;
  void* reserved0;
  uint64_t graph_node_id;
  uint32_t graph_id;
  uint32_t channel_id;
  uint32_t channel_type;
  uint32_t padding;
};
static_assert(sizeof(MemcpyPeer4) == 96);
static_assert(offsetof(MemcpyPeer4, correlation_id) == 60 && offsetof(MemcpyPeer4, graph_node_id) == 72);
inline constexpr size_t kMemcpyPeerBytesOldest = 72;
inline constexpr size_t kMemcpyPeerBytesWithGraph = 88;

struct Memset4 {
  ActivityKind kind;
  uint32_t value;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device_id;
  uint32_t context_id;
  uint32_t stream_id;
  uint32_t correlation_id;
  uint16_t flags;
  uint16_t memory_kind;
  uint32_t padding;
  void* reserved0;
  uint64_t graph_node_id;
  uint32_t graph_id;
  uint32_t channel_id;
  uint32_t channel_type;
  uint8_t is_device_launched;
  uint8_t padding2[3];
};
static_assert(sizeof(Memset4) == 88);
static_assert(offsetof(Memset4, memory_kind) == 50 && offsetof(Memset4, graph_node_id) == 64);
inline constexpr size_t kMemsetBytesOldest = 64;
inline constexpr size_t kMemsetBytesWithGraph = 80;

// The record of kRuntime, kDriver and kInternalLaunchApi.
struct Api {
  ActivityKind kind;
  uint32_t cbid;
  uint64_t start;
  uint64_t end;
  uint32_t process_id;
  uint32_t thread_id;
  uint32_t correlation_id;
  uint32_t return_value;
};
static_assert(sizeof(Api) == 40);

struct Synchronization2 {
  ActivityKind kind;
  SynchronizationType type;
  uint64_t start;
  uint64_t end;
  uint32_t correlation_id;
  uint32_t context_id;
  uint32_t stream_id;
  uint32_t cuda_event_id;
  uint64_t cuda_event_sync_id;
  uint32_t return_value;
  uint32_t padding;
};
static_assert(sizeof(Synchronization2) == 56);
inline constexpr size_t kSynchronizationBytesOldest = 40;

// It precedes the API record of the same correlation in its buffer.
struct ExternalCorrelation {
  ActivityKind kind;
  ExternalCorrelationKind external_kind;
  uint64_t external_id;
  uint32_t correlation_id;
  uint32_t reserved;
};
static_assert(sizeof(ExternalCorrelation) == 24);

struct CudaEvent2 {
  ActivityKind kind;
  uint32_t correlation_id;
  uint32_t context_id;
  uint32_t stream_id;
  uint32_t event_id;
  uint32_t padding;
  uint32_t device_id;
  uint32_t padding2;
  void* reserved0;
  uint64_t device_timestamp;
  uint64_t cuda_event_sync_id;
};
static_assert(sizeof(CudaEvent2) == 56);
inline constexpr size_t kCudaEventBytesOldest = 24;
inline constexpr size_t kCudaEventBytesWithTimestamp = 56;

struct ObjectId {
  uint32_t process_or_device;
  uint32_t thread_or_context;
  uint32_t stream;
};
static_assert(sizeof(ObjectId) == 12);

struct Overhead3 {
  ActivityKind kind;
  OverheadKind overhead_kind;
  ObjectKind object_kind;
  ObjectId object;
  uint64_t start;
  uint64_t end;
  uint32_t correlation_id;
  uint32_t reserved0;
  void* overhead_data;
};
static_assert(sizeof(Overhead3) == 56);
static_assert(offsetof(Overhead3, start) == 24);
inline constexpr size_t kOverheadBytesOldest = 40;

struct Context3 {
  ActivityKind kind;
  uint32_t context_id;
  uint32_t device_id;
  uint16_t compute_api_kind;
  uint16_t null_stream_id;
  uint32_t parent_context_id;
  uint8_t is_green_context;
  uint8_t padding;
  uint16_t multiprocessors;
  uint32_t cig_mode;
  uint32_t padding2;
};
static_assert(sizeof(Context3) == 32);
inline constexpr size_t kContextBytesOldest = 16;
inline constexpr size_t kContextBytesWithParent = 24;  // with parent_context_id to multiprocessors

struct Stream {
  ActivityKind kind;
  uint32_t context_id;
  uint32_t stream_id;
  uint32_t priority;  // an int; a smaller number means a higher priority
  StreamFlag flag;
  uint32_t correlation_id;
};
static_assert(sizeof(Stream) == 24);

struct GraphTrace2 {
  ActivityKind kind;
  uint32_t correlation_id;
  uint64_t start;
  uint64_t end;
  uint32_t device_id;
  uint32_t graph_id;
  uint32_t context_id;
  uint32_t stream_id;
  void* reserved;
  uint32_t end_device_id;
  uint32_t end_context_id;
};
static_assert(sizeof(GraphTrace2) == 56);

struct Device5 {
  ActivityKind kind;
  uint32_t flags;
  uint64_t memory_bandwidth;  // kilobytes per second
  uint64_t memory_bytes;
  uint32_t constant_memory_bytes;
  uint32_t l2_cache_bytes;
  uint32_t threads_per_warp;
  uint32_t core_clock_khz;
  uint32_t copy_engines;
  uint32_t multiprocessors;
  uint32_t max_ipc;
  uint32_t max_warps_per_multiprocessor;
  uint32_t max_blocks_per_multiprocessor;
  uint32_t max_shared_memory_per_multiprocessor;
  uint32_t max_registers_per_multiprocessor;
  uint32_t max_registers_per_block;
  uint32_t max_shared_memory_per_block;
  uint32_t max_threads_per_block;
  uint32_t max_block_dim[3];
  uint32_t max_grid_dim[3];
  uint32_t compute_major;
  uint32_t compute_minor;
  uint32_t id;
  uint32_t ecc_enabled;
  uint8_t uuid[16];
  const char* name;
  uint8_t is_cuda_visible;
  uint8_t is_mig_enabled;
  uint8_t reserved[6];
  uint32_t gpu_instance_id;
  uint32_t compute_instance_id;
  uint8_t mig_uuid[16];
  uint32_t is_numa_node;
  uint32_t numa_id;
};
static_assert(sizeof(Device5) == 184);
static_assert(offsetof(Device5, name) == 136);
inline constexpr size_t kDeviceBytesOldest = 144;  // Device2; older versions have other offsets
inline constexpr size_t kDeviceBytesWithVisibility = 152;
inline constexpr size_t kDeviceBytesWithMig = 176;
inline constexpr size_t kDeviceBytesWithNuma = 184;

struct Memory4 {
  ActivityKind kind;
  MemoryOperation operation;
  uint32_t memory_kind;  // MemoryKind
  uint32_t correlation_id;
  uint64_t address;
  uint64_t bytes;
  uint64_t timestamp;
  uint64_t program_counter;
  uint32_t process_id;
  uint32_t device_id;
  uint32_t context_id;
  uint32_t stream_id;  // valid only for an asynchronous operation
  const char* name;
  uint32_t is_async;
  uint32_t padding;
  struct {
    MemoryPool type;
    uint32_t padding;
    uint64_t address;
    uint64_t release_threshold;
    uint64_t size_or_process;  // kLocal: bytes; kImported: process that owns the pool
    uint64_t utilized_bytes;   // valid only in long enough records
  } pool;
  const char* source;
};
static_assert(sizeof(Memory4) == 128);
static_assert(offsetof(Memory4, timestamp) == 32 && offsetof(Memory4, pool) == 80);
inline constexpr size_t kMemoryBytesOldest = 112;
inline constexpr size_t kMemoryBytesWithUtilized = 120;

}  // namespace lockstep::foreign::cupti

#endif  // LOCKSTEP_WIRE_FOREIGN_CUPTI_RECORDS_H_
