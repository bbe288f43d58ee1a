// The state behind the simulated libcudart: the process's Gpu, its kernels' names, each thread's last error.
#ifndef LOCKSTEP_SIM_CUDART_RUNTIME_H_
#define LOCKSTEP_SIM_CUDART_RUNTIME_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "sim/device/gpu.h"
#include "wire/foreign/cuda_runtime.h"
#include "wire/foreign/cupti.h"

#define LOCKSTEP_SIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace lockstep::sim {

class Runtime {
 public:
  // Never destroyed: work may be on its way while the process ends.
  static Runtime& Get();

  // Initialises CUDA at the first call, and then loads the library that CUDA_INJECTION64_PATH names, as the
  // driver does. Any thread; also from inside that library.
  Gpu& gpu();

  void RegisterKernel(const void* host, const char* name);
  // The mangled name; null for what is no kernel of this program.
  const char* KernelName(const void* host);

  static foreign::cudart::cudaError_t& LastError();

 private:
  std::recursive_mutex mutex_;
  Gpu* gpu_ = nullptr;
  std::map<const void*, std::string> kernels_;
};

// One runtime call: its record and callbacks around `body(gpu, call)`, its error kept for cudaGetLastError.
template <typename Body>
foreign::cudart::cudaError_t RuntimeCall(uint32_t cbid, const char* name, Body body,
                                         const char* symbol = nullptr) {
  Gpu& gpu = Runtime::Get().gpu();
  ApiCall call(gpu.activity(), foreign::cupti::CallbackDomain::kRuntimeApi, cbid, name, symbol);
  const foreign::cudart::cudaError_t error = body(gpu, call);
  call.set_result(error);
  if (error != foreign::cudart::cudaSuccess && error != foreign::cudart::cudaErrorNotReady)
    Runtime::LastError() = error;
  return error;
}

// A wait of the host, told to CUPTI: `wait` between the two stamps.
template <typename Wait>
void TellOfWait(Gpu& gpu, const ApiCall& call, foreign::cupti::SynchronizationType type, const Stream* stream,
                uint32_t event, Wait wait) {
  namespace cupti = foreign::cupti;
  cupti::Synchronization2 r{};
  const int64_t start = RealtimeNs();
  wait();
  if (!gpu.activity().Wants(cupti::ActivityKind::kSynchronization)) return;
  r.kind = cupti::ActivityKind::kSynchronization;
  r.type = type;
  r.start = static_cast<uint64_t>(start);
  r.end = static_cast<uint64_t>(RealtimeNs());
  r.correlation_id = call.correlation();
  r.context_id = kSimContextId + static_cast<uint32_t>(stream != nullptr ? stream->device : gpu.device());
  r.stream_id = stream != nullptr ? stream->id : cupti::kDoesNotApply;
  r.cuda_event_id = event != 0 ? event : cupti::kDoesNotApply;
  gpu.activity().Record(&r, sizeof r, {}, start);
}

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_CUDART_RUNTIME_H_
