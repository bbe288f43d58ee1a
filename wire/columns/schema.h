// The columns of each kind of record. Their order is the format: append only.
#ifndef LOCKSTEP_COMMON_COLUMNS_SCHEMA_H_
#define LOCKSTEP_COMMON_COLUMNS_SCHEMA_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::columns {

// The numbers of ring::RecordKind, so that a loss counted by kind means the same everywhere.
enum class Kind : uint16_t {
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
  kKernelChannel = 15,
  kProxyOp = 16,
  kThreadName = 17,
  kDevice = 18,
  kContext = 19,
  kStream = 20,
  kMemoryOp = 21,
};
inline constexpr size_t kKinds = 22;

enum class Encoding : uint8_t {
  kDelta,  // zigzag of the difference to the row before
  kPlain,  // unsigned
};

struct Column {
  const char* name;
  Encoding encoding;
};

// Empty for kString and for unknown kinds. Stamps are int64 nanoseconds of the process's CUPTI clock;
// `duration` is end - start.
std::span<const Column> Schema(Kind kind);
const char* KindName(Kind kind);  // "kernel", "memcpy", …; "unknown"

// Column indices, for those who fill and read rows.
namespace kernel {
enum : size_t {
  kStart,
  kDuration,
  kCorrelation,
  kDevice,
  kContext,
  kStream,
  kName,
  kGridX,
  kGridY,
  kGridZ,
  kBlockX,
  kBlockY,
  kBlockZ,
  kRegisters,
  kStaticShared,
  kDynamicShared,
  kGraph,
  kGraphNode,
  kChannel,
  kColumns
};
}
namespace memcpy {
enum : size_t {
  kStart,
  kDuration,
  kCorrelation,
  kDevice,
  kContext,
  kStream,
  kBytes,
  kCopyKind,
  kSrcKind,
  kDstKind,
  kFlags,
  kGraph,
  kGraphNode,
  kIsPeer,
  kSrcDevice,
  kDstDevice,
  kColumns
};
}
namespace memset {
enum : size_t {
  kStart,
  kDuration,
  kCorrelation,
  kDevice,
  kContext,
  kStream,
  kBytes,
  kValue,
  kMemoryKind,
  kGraph,
  kGraphNode,
  kColumns
};
}
namespace api {
enum : size_t { kStart, kDuration, kCorrelation, kCbid, kThread, kResult, kIsDriver, kName, kColumns };
}
namespace sync {
enum : size_t { kStart, kDuration, kCorrelation, kContext, kStream, kType, kEvent, kColumns };
}
namespace external_correlation {
enum : size_t { kExternal, kCorrelation, kExternalKind, kColumns };
}
namespace cuda_event {
enum : size_t { kDeviceTime, kCorrelation, kContext, kStream, kEvent, kColumns };
}
namespace overhead {
enum : size_t { kStart, kDuration, kOverheadKind, kThread, kColumns };
}
namespace range {
// kFlags: bit 0 start unknown, bit 1 end unknown, bit 2 mark (as ring::RangeRecord).
enum : size_t { kStart, kDuration, kName, kDomain, kThread, kDepth, kPayload, kFlags, kColumns };
}  // namespace range
namespace communicator {
// kDevice: CUDA ordinal + 1, 0 unknown.
enum : size_t { kComm, kName, kRank, kRanks, kNodes, kDevice, kColumns };
}  // namespace communicator
namespace collective {
// kFlags: bit 1 from NVTX (kBytes is meant), bit 2 the sequence is this rank's own (as
// ring::CollectiveRecord).
enum : size_t {
  kEnqueued,
  kComm,
  kSequence,
  kLaunch,
  kCount,
  kFunction,
  kDatatype,
  kAlgorithm,
  kProtocol,
  kRoot,
  kChannels,
  kFlags,
  kBytes,
  kOperation,
  kReduction,
  kColumns
};
}  // namespace collective
namespace point_to_point {
// kFlags: bit 1 from NVTX (kBytes is meant).
enum : size_t {
  kEnqueued,
  kComm,
  kSequence,
  kLaunch,
  kCount,
  kDatatype,
  kPeer,
  kIsSend,
  kFlags,
  kBytes,
  kOperation,
  kColumns
};
}  // namespace point_to_point
namespace clock {
enum : size_t { kRealtime, kMonotonic, kMonotonicRaw, kTsc, kCupti, kGap, kColumns };
}
namespace kernel_channel {
enum : size_t { kStart, kDuration, kGpuStart, kGpuDuration, kComm, kOperation, kChannel, kColumns };
}
namespace proxy_op {
enum : size_t {
  kStart,
  kDuration,
  kComm,
  kOperation,
  kPeer,
  kChannel,
  kIsSend,
  kIsRemote,
  kSteps,
  kChunkBytes,
  kStepsSeen,
  kBytes,
  kGpuWait,
  kPeerWait,
  kNetworkWait,
  kFlushWait,
  kColumns
};
}
namespace thread_name {
enum : size_t { kThread, kName, kColumns };
}
namespace device {
// kFlags: bit 0 hidden from the process, bit 1 MIG, bit 2 ECC. A UUID is two numbers, its first eight bytes
// and its last, each with the first byte highest. kNumaNode: + 1, 0 unknown.
enum : size_t {
  kDevice,
  kName,
  kComputeMajor,
  kComputeMinor,
  kMultiprocessors,
  kMemoryBytes,
  kMemoryBytesPerS,
  kClockKhz,
  kL2Bytes,
  kCopyEngines,
  kThreadsPerWarp,
  kWarpsPerMultiprocessor,
  kSharedPerMultiprocessor,
  kRegistersPerMultiprocessor,
  kFlags,
  kUuidFirst,
  kUuidLast,
  kMigUuidFirst,
  kMigUuidLast,
  kGpuInstance,
  kComputeInstance,
  kNumaNode,
  kColumns
};
}  // namespace device
namespace context {
// kFlags: bit 0 a green context.
enum : size_t { kContext, kDevice, kApi, kNullStream, kParent, kMultiprocessors, kFlags, kColumns };
}  // namespace context
namespace stream {
// kType: as ring::StreamRecord.
enum : size_t { kContext, kStream, kPriority, kType, kColumns };
}  // namespace stream
namespace memory_op {
enum : size_t {
  kTime,
  kCorrelation,
  kIsRelease,
  kIsAsync,
  kAddress,
  kBytes,
  kMemoryKind,
  kDevice,
  kContext,
  kStream,
  kPoolType,
  kPoolAddress,
  kPoolBytes,
  kPoolUsed,
  kColumns
};
}

}  // namespace lockstep::columns

#endif  // LOCKSTEP_COMMON_COLUMNS_SCHEMA_H_
