// The part of libcuda.so.1 in the simulated stack. It has the version, and the devices with a context, and it
// shows in /proc that CUDA is initialised. libcudart loads it, as the real libcudart does, and reports
// contexts. The device is in libcudart.
//
// cuInit alone loads $CUDA_INJECTION64_PATH and creates no context, as in a launcher that only looks for
// devices.
#include "sim/driver/stack_driver.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>

#include "wire/foreign/cupti.h"

#define LOCKSTEP_SIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kVersion = 13000;
// Values of CUresult.
constexpr int kSuccess = 0, kInvalidValue = 1, kNotInitialized = 3, kInvalidDevice = 101;
constexpr int kMostDevices = 64;

std::atomic<bool> g_initialized{false};
std::atomic<int> g_devices{1};
std::atomic<uint64_t> g_with_context{0};  // one bit per device

}  // namespace

LOCKSTEP_SIM_EXPORT int cuDriverGetVersion(int* version) {
  if (version == nullptr) return kInvalidValue;
  *version = kVersion;
  return kSuccess;
}

LOCKSTEP_SIM_EXPORT int cuInit(unsigned flags) {
  if (flags != 0) return kInvalidValue;
  if (g_initialized.exchange(true)) return kSuccess;
  const char* path = std::getenv("CUDA_INJECTION64_PATH");
  void* library = path == nullptr || *path == '\0' ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return kSuccess;
  const auto initialize = reinterpret_cast<lockstep::foreign::cupti::InitializeInjectionFn>(
      dlsym(library, "InitializeInjection"));
  if (initialize != nullptr) initialize();
  return kSuccess;
}

LOCKSTEP_SIM_EXPORT int cuDeviceGetCount(int* count) {
  if (count == nullptr) return kInvalidValue;
  if (!g_initialized.load()) return kNotInitialized;
  *count = g_devices.load();
  return kSuccess;
}

LOCKSTEP_SIM_EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  if (flags == nullptr || active == nullptr) return kInvalidValue;
  if (!g_initialized.load()) return kNotInitialized;
  if (device < 0 || device >= g_devices.load()) return kInvalidDevice;
  *flags = 0;
  *active = (g_with_context.load() >> device & 1) != 0 ? 1 : 0;
  return kSuccess;
}

LOCKSTEP_SIM_EXPORT void lockstep_sim_initialized(int devices) {
  g_devices.store(devices < kMostDevices ? devices : kMostDevices);
  g_initialized.store(true);
}

LOCKSTEP_SIM_EXPORT void lockstep_sim_context_created(int device) {
  if (device >= 0 && device < kMostDevices) g_with_context.fetch_or(uint64_t{1} << device);
}
