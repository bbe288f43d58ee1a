#include "sim/cudart/runtime.h"

#include <dlfcn.h>
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "sim/cupti/core.h"
#include "sim/device/port.h"
#include "sim/driver/stack_driver.h"

namespace lockstep::sim {
namespace {

// Returns the driver, which is never unloaded, or null.
void* LoadDriver() {
  Dl_info self = {};
  if (dladdr(reinterpret_cast<void*>(&LoadDriver), &self) == 0 || self.dli_fname == nullptr) return nullptr;
  const std::string own = self.dli_fname;
  return dlopen((own.substr(0, own.rfind('/') + 1) + "libcuda.so.1").c_str(), RTLD_NOW | RTLD_LOCAL);
}

void LoadInjection() {
  const char* path = getenv("CUDA_INJECTION64_PATH");
  void* library = path == nullptr || *path == '\0' ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  const auto initialize =
      reinterpret_cast<foreign::cupti::InitializeInjectionFn>(dlsym(library, "InitializeInjection"));
  if (initialize != nullptr) initialize();
}

constexpr SimDeviceCore kDeviceCore = {kSimCoreVersion, [](const SimCore* core) {
                                         Runtime::Get().gpu().activity().SetCore(core);
                                         return true;
                                       }};

}  // namespace

Runtime& Runtime::Get() {
  static Runtime* const runtime = new Runtime;
  return *runtime;
}

Gpu& Runtime::gpu() {
  // Takes no mutex in a forked child, because another thread of the parent may have held it.
  if (Gpu* ready = ready_.load(std::memory_order_acquire); ready != nullptr) return *ready;
  MutexLock lock(&mutex_);
  if (gpu_ != nullptr) {
    initialized_.Wait(&mutex_, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return initializer_ == std::thread::id() || initializer_ == std::this_thread::get_id();
    });
    return *gpu_;
  }
  std::vector<std::string> error;
  gpu_ = new Gpu(DeviceSettings::Read([](const char* name) -> const char* { return getenv(name); }, &error));
  for (const std::string& t : error) std::fprintf(stderr, "simulated GPU: %s\n", t.c_str());
  initializer_ = std::this_thread::get_id();
  pthread_atfork(nullptr, nullptr, [] { Get().forked_ = true; });
  const int devices = gpu_->settings().devices;
  {
    MutexUnlock unlocked(&mutex_);
    if (void* driver = LoadDriver(); driver != nullptr) {
      const auto initialized =
          reinterpret_cast<decltype(&lockstep_sim_initialized)>(dlsym(driver, "lockstep_sim_initialized"));
      if (initialized != nullptr) initialized(devices);
      context_created_.store(reinterpret_cast<decltype(&lockstep_sim_context_created)>(
          dlsym(driver, "lockstep_sim_context_created")));
    }
    LoadInjection();
  }
  initializer_ = {};
  ready_.store(gpu_, std::memory_order_release);
  initialized_.SignalAll();
  return *gpu_;
}

void Runtime::RegisterKernel(const void* host, const char* name) {
  MutexLock lock(&mutex_);
  kernels_[host] = name;
}

const char* Runtime::KernelName(const void* host) {
  MutexLock lock(&mutex_);
  const auto it = kernels_.find(host);
  return it == kernels_.end() ? nullptr : it->second.c_str();
}

foreign::cudart::cudaError_t& Runtime::LastError() {
  static thread_local foreign::cudart::cudaError_t error = foreign::cudart::cudaSuccess;
  return error;
}

}  // namespace lockstep::sim

namespace sim = lockstep::sim;

LOCKSTEP_SIM_EXPORT const sim::SimDeviceCore* lockstep_sim_device(uint32_t version) {
  return version == sim::kSimCoreVersion ? &sim::kDeviceCore : nullptr;
}

LOCKSTEP_SIM_EXPORT sim::Gpu* lockstep_sim_gpu(uint32_t version) {
  return version == sim::kSimGpuVersion ? &sim::Runtime::Get().gpu() : nullptr;
}
