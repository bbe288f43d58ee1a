// Our declarations of CUPTI's activity ABI, as far as the client and the simulated CUPTI use it. Both thus
// build without a CUDA toolkit. Where a toolkit is installed, tests/abi/cupti_headers_test.cc compares
// every value, size and offset with the real header.
#ifndef LOCKSTEP_WIRE_FOREIGN_CUPTI_H_
#define LOCKSTEP_WIRE_FOREIGN_CUPTI_H_

#include <cstddef>
#include <cstdint>

#include "wire/foreign/cupti_records.h"

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

enum class CallbackDomain : uint32_t {
  kInvalid = 0,
  kDriverApi = 1,
  kRuntimeApi = 2,
  kResource = 3,
  kSynchronize = 4,
  kNvtx = 5
};
inline constexpr uint32_t kCallbackDomains = 6;

// Callback ids of the functions that we use ("Ptsz": the variant for per-thread default streams).
namespace runtime_cbid {
inline constexpr uint32_t kDriverGetVersion = 1;
inline constexpr uint32_t kRuntimeGetVersion = 2;
inline constexpr uint32_t kGetDeviceCount = 3;
inline constexpr uint32_t kGetLastError = 10;
inline constexpr uint32_t kPeekAtLastError = 11;
inline constexpr uint32_t kSetDevice = 16;
inline constexpr uint32_t kGetDevice = 17;
inline constexpr uint32_t kMalloc = 20;
inline constexpr uint32_t kFree = 22;
inline constexpr uint32_t kMallocHost = 25;
inline constexpr uint32_t kFreeHost = 26;
inline constexpr uint32_t kHostAlloc = 27;
inline constexpr uint32_t kMemGetInfo = 30;
inline constexpr uint32_t kMemcpy = 31;
inline constexpr uint32_t kMemcpyAsync = 41;
inline constexpr uint32_t kMemset = 49;
inline constexpr uint32_t kMemsetAsync = 51;
inline constexpr uint32_t kStreamCreate = 129;
inline constexpr uint32_t kStreamSynchronize = 131;
inline constexpr uint32_t kStreamQuery = 132;
inline constexpr uint32_t kEventCreate = 133;
inline constexpr uint32_t kEventCreateWithFlags = 134;
inline constexpr uint32_t kEventRecord = 135;
inline constexpr uint32_t kEventDestroy = 136;
inline constexpr uint32_t kEventSynchronize = 137;
inline constexpr uint32_t kEventQuery = 138;
inline constexpr uint32_t kStreamWaitEvent = 147;
inline constexpr uint32_t kPointerGetAttributes = 151;
inline constexpr uint32_t kMemcpyPeerAsync = 161;
inline constexpr uint32_t kDeviceReset = 164;
inline constexpr uint32_t kDeviceSynchronize = 165;
inline constexpr uint32_t kProfilerStart = 171;
inline constexpr uint32_t kProfilerStop = 172;
inline constexpr uint32_t kStreamCreateWithFlags = 198;
inline constexpr uint32_t kDeviceGetAttribute = 200;
inline constexpr uint32_t kStreamDestroy = 201;
inline constexpr uint32_t kStreamCreateWithPriority = 202;
inline constexpr uint32_t kDeviceGetStreamPriorityRange = 205;
inline constexpr uint32_t kLaunchKernel = 211;
inline constexpr uint32_t kLaunchKernelPtsz = 214;
inline constexpr uint32_t kMemcpyAsyncPtsz = 225;
inline constexpr uint32_t kMemsetAsyncPtsz = 235;
inline constexpr uint32_t kStreamSynchronizePtsz = 239;
inline constexpr uint32_t kStreamQueryPtsz = 240;
inline constexpr uint32_t kEventRecordPtsz = 242;
inline constexpr uint32_t kStreamWaitEventPtsz = 247;
inline constexpr uint32_t kLaunchHostFunc = 284;
inline constexpr uint32_t kGraphLaunch = 311;
inline constexpr uint32_t kGraphLaunchPtsz = 312;
inline constexpr uint32_t kGraphExecDestroy = 313;
inline constexpr uint32_t kGraphDestroy = 314;
inline constexpr uint32_t kStreamBeginCapture = 315;
inline constexpr uint32_t kStreamIsCapturing = 317;
inline constexpr uint32_t kStreamIsCapturingPtsz = 318;
inline constexpr uint32_t kStreamEndCapture = 319;
inline constexpr uint32_t kMallocAsync = 373;
inline constexpr uint32_t kFreeAsync = 375;
inline constexpr uint32_t kGraphInstantiateWithFlags = 418;
inline constexpr uint32_t kLaunchKernelExC = 430;
inline constexpr uint32_t kLaunchKernelExCPtsz = 431;
inline constexpr uint32_t kGetDeviceProperties = 440;
inline constexpr uint32_t kGraphInstantiate = 443;
inline constexpr uint32_t kEventElapsedTime = 486;
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

// An opaque CUDA context of CUPTI. In the completion callback it is always null since CUDA 6.
using Context = void*;

enum class Attribute : uint32_t {
  kDeviceBufferSize = 0,
  kDeviceBufferPoolLimit = 2,
  kZeroedOutActivityBuffer = 5,
  kDeviceBufferPreAllocate = 6,
  kHostPinned = 8,
  kPerThreadActivityBuffer = 9,
};
// kDefault: pthread_self cut to 32 bits; kSystem: gettid.
enum class ThreadIdType : uint32_t { kDefault = 0, kSystem = 1 };
inline constexpr uint32_t kFlushForced = 1;

// CUPTI calls it on any application thread. It returns a buffer aligned to 8 bytes, or null from CUPTI 12.9
// on.
using BufferRequested = void (*)(uint8_t** buffer, size_t* bytes, size_t* max_records);
// CUPTI calls it on its worker thread, or on the thread that flushes.
using BufferCompleted = void (*)(Context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t valid_bytes);

// The place in an API call where a subscriber's callback runs.
enum class CallbackSite : uint32_t { kEnter = 0, kExit = 1 };
// The argument of a subscriber's callback in the driver and runtime domains. It is valid during the callback.
struct CallbackData {
  CallbackSite site;
  const char* function_name;
  const void* function_params;
  void* function_return_value;  // only at the exit
  const char* symbol_name;      // kernel name, for launches
  Context context;
  uint32_t context_id;
  uint64_t* correlation_data;  // the subscriber's value, kept from enter to exit
  uint32_t correlation_id;
};
static_assert(sizeof(CallbackData) == 72 && offsetof(CallbackData, correlation_id) == 64);
using CallbackFn = void (*)(void* user_data, CallbackDomain, uint32_t cbid, const void* data);

// The parameters of cuptiSubscribe_v2. If another subscriber holds CUPTI, its name is written to `holder`.
struct SubscriberParams {
  size_t struct_size;
  const char* name;
  char* holder;
  size_t holder_bytes;
};
static_assert(sizeof(SubscriberParams) == 32);
// CUPTI puts this before a subscriber's name, and cuts the result at holder_bytes.
inline constexpr char kSubscriberPrefix[] = "CUPTI for ";

using TimestampCallback = uint64_t (*)();

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
using ActivityRegisterTimestampCallbackFn = Result (*)(TimestampCallback);
using SubscribeFn = Result (*)(void** subscriber, CallbackFn, void* user_data);
using SubscribeV2Fn = Result (*)(void** subscriber, CallbackFn, void* user_data, SubscriberParams*);
using UnsubscribeFn = Result (*)(void* subscriber);
using EnableCallbackFn = Result (*)(uint32_t enable, void* subscriber, CallbackDomain, uint32_t cbid);
using EnableDomainFn = Result (*)(uint32_t enable, void* subscriber, CallbackDomain);
using GetDeviceIdFn = Result (*)(Context, uint32_t* device);
using GetContextIdFn = Result (*)(Context, uint32_t* context);
using GetStreamIdExFn = Result (*)(Context, void* stream, uint8_t per_thread, uint32_t* stream_id);
using FinalizeFn = Result (*)();

// cuptiGetVersion returns 1 to 28 up to CUDA 12.9 U1, then xxyyzz.
inline constexpr uint32_t kVersion_11_0 = 13;      // Kernel5 records
inline constexpr uint32_t kVersion_11_1 = 14;      // Memcpy4, Memset3, MemcpyPtoP3
inline constexpr uint32_t kVersion_11_2 = 15;      // Kernel6
inline constexpr uint32_t kVersion_11_6 = 17;      // Kernel7, Memcpy5, Memset4, MemcpyPtoP4
inline constexpr uint32_t kVersion_11_8 = 18;      // Kernel8
inline constexpr uint32_t kVersion_12_0 = 19;      // Kernel9
inline constexpr uint32_t kVersion_12_4 = 22;      // Overhead3
inline constexpr uint32_t kVersion_12_5 = 23;      // the first with EnableRuntimeApi and EnableDriverApi
inline constexpr uint32_t kVersion_12_8 = 26;      // Memcpy6, Synchronization2, CudaEvent2
inline constexpr uint32_t kVersion_12_9 = 27;      // the first that accepts a null buffer
inline constexpr uint32_t kVersion_13_0 = 130000;  // deadlocks when kernel records are disabled
inline constexpr uint32_t kVersion_13_0U1 = 130001;
// The first since 13.0 with correct correlations of graphs in every session.
inline constexpr uint32_t kVersion_13_1U1 = 130101;
// The first whose device stamps follow a timestamp callback that is registered after the first context.
inline constexpr uint32_t kVersion_13_3 = 130303;

// CUDA calls this function once in the library named by CUDA_INJECTION64_PATH, while the driver initialises.
// It returns 1 for success.
using InitializeInjectionFn = int (*)();

}  // namespace lockstep::foreign::cupti

#endif  // LOCKSTEP_WIRE_FOREIGN_CUPTI_H_
