// Holds the state of the simulated libcudart: the process's Gpu, the names of its kernels, and the last error
// of each thread. Any thread may call it.
#ifndef LOCKSTEP_SIM_CUDART_RUNTIME_H_
#define LOCKSTEP_SIM_CUDART_RUNTIME_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "sim/device/gpu.h"
#include "wire/foreign/cuda_runtime.h"
#include "wire/foreign/cupti.h"

#define LOCKSTEP_SIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace lockstep::sim {

class Runtime {
 public:
  // The object is never destroyed, because work may still run while the process ends.
  static Runtime& Get();

  // Initialises CUDA at the first call, and then loads the library in CUDA_INJECTION64_PATH, as the driver
  // does. Any thread may call it, also from inside that library.
  Gpu& gpu();
  // Returns whether this process was forked by one that had initialised CUDA. CUDA does not work in it.
  bool forked() const { return forked_.load(std::memory_order_relaxed); }
  // Notes that the device has a context from now on.
  void CreateContext(int device) {
    if (const auto created = context_created_.load(); created != nullptr) created(device);
  }

  void RegisterKernel(const void* host, const char* name);
  // Returns the mangled name, or null if `host` is not a kernel of this program.
  const char* KernelName(const void* host);

  static foreign::cudart::cudaError_t& LastError();

 private:
  Mutex mutex_;
  CondVar initialized_;
  Gpu* gpu_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::atomic<Gpu*> ready_{nullptr};  // gpu_ once it is initialised
  std::atomic<bool> forked_{false};
  std::atomic<void (*)(int device)> context_created_{nullptr};  // the driver's function; null: no driver
  // The thread that initialises CUDA; none before and after. Other threads wait for it.
  std::thread::id initializer_ ABSL_GUARDED_BY(mutex_);
  std::map<const void*, std::string> kernels_ ABSL_GUARDED_BY(mutex_);
};

// Calls that only ask create no context, as in CUDA 12 and later.
inline bool CreatesContext(uint32_t cbid) {
  namespace cbids = foreign::cupti::runtime_cbid;
  switch (cbid) {
    case cbids::kGetLastError:
    case cbids::kPeekAtLastError:
    case cbids::kDriverGetVersion:
    case cbids::kGetDeviceCount:
    case cbids::kGetDevice:
    case cbids::kGetDeviceProperties:
    case cbids::kDeviceGetAttribute:
      return false;
    default:
      return true;
  }
}

// Makes one runtime call: writes its record, runs the callbacks before and after `body(gpu, call)`, and keeps
// its error for cudaGetLastError. In a forked process it writes the record, and fails without `body`.
template <typename Body>
foreign::cudart::cudaError_t RuntimeCall(uint32_t cbid, const char* name, Body body,
                                         const char* symbol = nullptr) {
  Gpu& gpu = Runtime::Get().gpu();
  ApiCall call(gpu.activity(), foreign::cupti::CallbackDomain::kRuntimeApi, cbid, name, symbol);
  const bool forked = Runtime::Get().forked();
  const foreign::cudart::cudaError_t error =
      forked ? foreign::cudart::cudaErrorInitializationError : body(gpu, call);
  if (!forked && CreatesContext(cbid)) Runtime::Get().CreateContext(gpu.device());
  call.set_result(error);
  if (error != foreign::cudart::cudaSuccess && error != foreign::cudart::cudaErrorNotReady)
    Runtime::LastError() = error;
  return error;
}

// Runs `wait` and reports it to CUPTI as a synchronisation record with the times before and after it.
template <typename Wait>
void RecordWait(Gpu& gpu, const ApiCall& call, foreign::cupti::SynchronizationType type, const Stream* stream,
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
