// CUPTI's activity ABI, as far as the client and the simulated CUPTI use it: our own declarations, so that
// both build where no CUDA toolkit is. Where one is, tests/abi/foreign_headers_test.cc compares every value,
// size and offset with the real header.
#ifndef LOCKSTEP_COMMON_FOREIGN_CUPTI_H_
#define LOCKSTEP_COMMON_FOREIGN_CUPTI_H_

#include <cstddef>
#include <cstdint>

#include "common/foreign/cupti_records.h"

namespace lockstep::foreign::cupti {

enum class Result : uint32_t {
  kSuccess = 0,
  kInvalidParameter = 1,
  kInvalidOperation = 7,
  kOutOfMemory = 8,
  kMaxLimitReached = 12,
  kNotReady = 13,
  kNotCompatible = 14,
  kNotInitialized = 15,
  kQueueEmpty = 18,
  kInvalidKind = 21,
  kDisabled = 23,
  kNotSupported = 27,
  kInsufficientPrivileges = 35,
  kMultipleSubscribersNotSupported = 39,
  kVirtualizedDeviceInsufficientPrivileges = 40,
  kUnknown = 999,
};

enum class CallbackDomain : uint32_t { kInvalid = 0, kDriverApi = 1, kRuntimeApi = 2 };

// Callback ids of the functions that matter here ("Ptsz": the per-thread default stream variant).
namespace runtime_cbid {
inline constexpr uint32_t kGetLastError = 10;
inline constexpr uint32_t kPeekAtLastError = 11;
inline constexpr uint32_t kGetDevice = 17;
inline constexpr uint32_t kMalloc = 20;
inline constexpr uint32_t kFree = 22;
inline constexpr uint32_t kMemcpy = 31;
inline constexpr uint32_t kMemcpyAsync = 41;
inline constexpr uint32_t kMemset = 49;
inline constexpr uint32_t kMemsetAsync = 51;
inline constexpr uint32_t kStreamSynchronize = 131;
inline constexpr uint32_t kStreamQuery = 132;
inline constexpr uint32_t kEventRecord = 135;
inline constexpr uint32_t kEventSynchronize = 137;
inline constexpr uint32_t kEventQuery = 138;
inline constexpr uint32_t kStreamWaitEvent = 147;
inline constexpr uint32_t kDeviceSynchronize = 165;
inline constexpr uint32_t kProfilerStart = 171;
inline constexpr uint32_t kProfilerStop = 172;
inline constexpr uint32_t kLaunchKernel = 211;
inline constexpr uint32_t kLaunchKernelPtsz = 214;
inline constexpr uint32_t kMemcpyAsyncPtsz = 225;
inline constexpr uint32_t kStreamSynchronizePtsz = 239;
inline constexpr uint32_t kStreamQueryPtsz = 240;
inline constexpr uint32_t kStreamWaitEventPtsz = 247;
inline constexpr uint32_t kGraphLaunch = 311;
inline constexpr uint32_t kGraphLaunchPtsz = 312;
inline constexpr uint32_t kStreamIsCapturing = 317;
inline constexpr uint32_t kStreamIsCapturingPtsz = 318;
inline constexpr uint32_t kLaunchKernelExC = 430;
inline constexpr uint32_t kLaunchKernelExCPtsz = 431;
}  // namespace runtime_cbid

namespace driver_cbid {
inline constexpr uint32_t kLaunchKernel = 307;
inline constexpr uint32_t kProfilerStart = 308;
inline constexpr uint32_t kProfilerStop = 309;
inline constexpr uint32_t kLaunchKernelPtsz = 442;
inline constexpr uint32_t kGraphLaunch = 514;
inline constexpr uint32_t kGraphLaunchPtsz = 515;
inline constexpr uint32_t kLaunchKernelEx = 652;
inline constexpr uint32_t kLaunchKernelExPtsz = 653;
}  // namespace driver_cbid

// A CUDA context as CUPTI passes it: opaque, always null in the completion callback since CUDA 6.
using Context = void*;

enum class Attribute : uint32_t {
  kDeviceBufferSize = 0,
  kDeviceBufferPoolLimit = 2,
  kZeroedOutActivityBuffer = 5,
  kDeviceBufferPreAllocate = 6,
  kHostPinned = 8,
  kPerThreadActivityBuffer = 9,
};
enum class ThreadIdType : uint32_t { kDefault = 0, kSystem = 1 };  // pthread_self cut to 32 bits; gettid
inline constexpr uint32_t kFlushForced = 1;

// Called on any application thread; must hand out a buffer (8-byte aligned) below CUPTI 12.9, may hand out
// null above.
using BufferRequested = void (*)(uint8_t** buffer, size_t* bytes, size_t* max_records);
// Called on CUPTI's worker thread, or on the thread that flushes.
using BufferCompleted = void (*)(Context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t valid_bytes);

using GetVersionFn = Result (*)(uint32_t* version);
using GetResultStringFn = Result (*)(Result, const char** text);
using GetTimestampFn = Result (*)(uint64_t* ns);
using SetThreadIdTypeFn = Result (*)(ThreadIdType);
using GetThreadIdTypeFn = Result (*)(ThreadIdType*);
using GetCallbackNameFn = Result (*)(CallbackDomain, uint32_t cbid, const char** name);
using ActivityRegisterCallbacksFn = Result (*)(BufferRequested, BufferCompleted);
using ActivityEnableFn = Result (*)(ActivityKind);
using ActivityEnableAndDumpFn = Result (*)(ActivityKind);
using ActivityDisableFn = Result (*)(ActivityKind);
using ActivityFlushAllFn = Result (*)(uint32_t flags);
using ActivityFlushPeriodFn = Result (*)(uint32_t milliseconds);
using ActivityGetNextRecordFn = Result (*)(uint8_t* buffer, size_t valid_bytes, Activity** record);
using ActivityGetNumDroppedRecordsFn = Result (*)(Context, uint32_t stream, size_t* dropped);
using ActivitySetAttributeFn = Result (*)(Attribute, size_t* value_bytes, void* value);
using ActivityGetAttributeFn = Result (*)(Attribute, size_t* value_bytes, void* value);
using ActivityPushExternalCorrelationIdFn = Result (*)(ExternalCorrelationKind, uint64_t id);
using ActivityPopExternalCorrelationIdFn = Result (*)(ExternalCorrelationKind, uint64_t* last_id);
using ActivityEnableRuntimeApiFn = Result (*)(uint32_t cbid, uint8_t enable);
using ActivityEnableDriverApiFn = Result (*)(uint32_t cbid, uint8_t enable);
using ActivityEnableAllSyncRecordsFn = Result (*)(uint8_t enable);
using FinalizeFn = Result (*)();

// cuptiGetVersion counts 1..28 up to CUDA 12.9 U1, then xxyyzz.
inline constexpr uint32_t kVersion_12_5 = 23;      // first with EnableRuntimeApi and EnableDriverApi
inline constexpr uint32_t kVersion_12_9 = 27;      // first that survives a null buffer
inline constexpr uint32_t kVersion_13_0 = 130000;  // deadlocks when kernels are disabled
inline constexpr uint32_t kVersion_13_0U1 = 130001;

// What CUDA calls, once, in the library that CUDA_INJECTION64_PATH names, while the driver initialises; 1 =
// fine.
using InitializeInjectionFn = int (*)();

}  // namespace lockstep::foreign::cupti

#endif  // LOCKSTEP_COMMON_FOREIGN_CUPTI_H_
