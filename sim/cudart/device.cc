// Implements the functions for devices, versions, errors and the profiler's switch.
#include <cstring>
#include <utility>

#include "sim/cudart/runtime.h"

using namespace lockstep::foreign::cudart;
using lockstep::sim::ApiCall;
using lockstep::sim::Gpu;
using lockstep::sim::Runtime;
using lockstep::sim::RuntimeCall;
namespace sim = lockstep::sim;
namespace cbid = lockstep::foreign::cupti::runtime_cbid;

namespace {

constexpr int kCudaVersion = 13000;

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "capture was not initiated in this stream"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
};

const ErrorText* Find(cudaError_t error) {
  for (const ErrorText& e : kErrors) {
    if (e.error == error) return &e;
  }
  return nullptr;
}

}  // namespace

LOCKSTEP_SIM_EXPORT const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* e = Find(error);
  return e == nullptr ? "unrecognized error code" : e->text;
}
LOCKSTEP_SIM_EXPORT const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* e = Find(error);
  return e == nullptr ? "unrecognized error code" : e->name;
}

LOCKSTEP_SIM_EXPORT cudaError_t cudaGetLastError() {
  RuntimeCall(cbid::kGetLastError, "cudaGetLastError", [](Gpu&, ApiCall&) { return cudaSuccess; });
  return std::exchange(Runtime::LastError(), cudaSuccess);
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaPeekAtLastError() {
  RuntimeCall(cbid::kPeekAtLastError, "cudaPeekAtLastError", [](Gpu&, ApiCall&) { return cudaSuccess; });
  return Runtime::LastError();
}

LOCKSTEP_SIM_EXPORT cudaError_t cudaDriverGetVersion(int* version) {
  return RuntimeCall(cbid::kDriverGetVersion, "cudaDriverGetVersion", [&](Gpu&, ApiCall&) {
    if (version == nullptr) return cudaErrorInvalidValue;
    *version = kCudaVersion;
    return cudaSuccess;
  });
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return cudaErrorInvalidValue;
  *version = kCudaVersion;
  return cudaSuccess;
}

LOCKSTEP_SIM_EXPORT cudaError_t cudaGetDeviceCount(int* count) {
  return RuntimeCall(cbid::kGetDeviceCount, "cudaGetDeviceCount", [&](Gpu& gpu, ApiCall&) {
    if (count == nullptr) return cudaErrorInvalidValue;
    *count = gpu.settings().devices;
    return cudaSuccess;
  });
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaGetDevice(int* device) {
  return RuntimeCall(cbid::kGetDevice, "cudaGetDevice", [&](Gpu& gpu, ApiCall&) {
    if (device == nullptr) return cudaErrorInvalidValue;
    *device = gpu.device();
    return cudaSuccess;
  });
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaSetDevice(int device) {
  return RuntimeCall(cbid::kSetDevice, "cudaSetDevice", [&](Gpu& gpu, ApiCall&) {
    return gpu.SetDevice(device) ? cudaSuccess : cudaErrorInvalidDevice;
  });
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaDeviceReset() {
  return RuntimeCall(cbid::kDeviceReset, "cudaDeviceReset", [](Gpu& gpu, ApiCall&) {
    gpu.SynchronizeAll();
    return cudaSuccess;
  });
}

LOCKSTEP_SIM_EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  return RuntimeCall(cbid::kGetDeviceProperties, "cudaGetDeviceProperties", [&](Gpu& gpu, ApiCall&) {
    if (p == nullptr) return cudaErrorInvalidValue;
    if (device < 0 || device >= gpu.settings().devices) return cudaErrorInvalidDevice;
    std::memset(static_cast<void*>(p), 0, sizeof *p);
    std::strcpy(p->name, "Simulated GPU");
    sim::SetDeviceUuid(static_cast<uint32_t>(device + 1), p->uuid);
    p->totalGlobalMem = sim::kDeviceMemoryBytes;
    p->sharedMemPerBlock = 49152;
    p->regsPerBlock = 65536;
    p->warpSize = 32;
    p->maxThreadsPerBlock = 1024;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 2147483647;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->totalConstMem = 65536;
    p->major = 9;
    p->multiProcessorCount = sim::kMultiprocessors;
    p->maxThreadsPerMultiProcessor = sim::kThreadsPerMultiprocessor;
    return cudaSuccess;
  });
}

LOCKSTEP_SIM_EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return RuntimeCall(cbid::kDeviceGetAttribute, "cudaDeviceGetAttribute", [&](Gpu& gpu, ApiCall&) {
    if (value == nullptr) return cudaErrorInvalidValue;
    if (device < 0 || device >= gpu.settings().devices) return cudaErrorInvalidDevice;
    switch (attribute) {
      case cudaDevAttrMaxThreadsPerBlock:
        *value = 1024;
        return cudaSuccess;
      case cudaDevAttrWarpSize:
        *value = 32;
        return cudaSuccess;
      case cudaDevAttrMultiProcessorCount:
        *value = sim::kMultiprocessors;
        return cudaSuccess;
      case cudaDevAttrMaxThreadsPerMultiProcessor:
        *value = sim::kThreadsPerMultiprocessor;
        return cudaSuccess;
      case cudaDevAttrComputeCapabilityMajor:
        *value = 9;
        return cudaSuccess;
      case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        return cudaSuccess;
    }
    return cudaErrorNotSupported;
  });
}

LOCKSTEP_SIM_EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return RuntimeCall(cbid::kDeviceGetStreamPriorityRange, "cudaDeviceGetStreamPriorityRange",
                     [&](Gpu&, ApiCall&) {
                       if (least != nullptr) *least = 0;
                       if (greatest != nullptr) *greatest = -5;
                       return cudaSuccess;
                     });
}

LOCKSTEP_SIM_EXPORT cudaError_t cudaProfilerStart() {
  return RuntimeCall(cbid::kProfilerStart, "cudaProfilerStart", [](Gpu&, ApiCall&) { return cudaSuccess; });
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaProfilerStop() {
  return RuntimeCall(cbid::kProfilerStop, "cudaProfilerStop", [](Gpu&, ApiCall&) { return cudaSuccess; });
}
