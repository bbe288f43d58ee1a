#include "sim/rank/process_clock.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace lockstep::sim {
namespace {

using ClockGettime = int (*)(clockid_t, timespec*);

// State of the program's only clock_gettime.
std::atomic<ClockGettime> g_libc{nullptr};
std::atomic<const ClockError*> g_error{nullptr};
thread_local int64_t t_virtual_ns = 0;  // 0 outside a VirtualNow

// Reads libc's clock. The clock of a preloaded library would add its own error. The system call serves until
// libc is found, because the loader reads the time before libc can be searched.
int ReadMachine(clockid_t id, timespec* t) {
  const ClockGettime libc = g_libc.load(std::memory_order_relaxed);
  if (libc != nullptr) return libc(id, t);
  return static_cast<int>(syscall(SYS_clock_gettime, id, t));
}

int64_t MachineNs(clockid_t id) {
  timespec t{};
  ReadMachine(id, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

void Store(int64_t ns, timespec* t) {
  t->tv_sec = ns / 1'000'000'000;
  t->tv_nsec = ns % 1'000'000'000;
}

}  // namespace

MonoTime MachineMonotonic() { return MonoTime(MachineNs(CLOCK_MONOTONIC)); }
HostTime MachineRealtime() { return HostTime(MachineNs(CLOCK_REALTIME)); }

void SetProcessClock(const ClockError& error) {
  if (void* libc = dlopen("libc.so.6", RTLD_NOLOAD | RTLD_LAZY)) {
    g_libc.store(reinterpret_cast<ClockGettime>(dlsym(libc, "clock_gettime")), std::memory_order_relaxed);
  }
  g_error.store(new ClockError(error), std::memory_order_release);  // kept until the process ends
}

VirtualNow::VirtualNow(HostTime at) { t_virtual_ns = at.ns(); }
VirtualNow::~VirtualNow() { t_virtual_ns = 0; }

}  // namespace lockstep::sim

extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t id, timespec* t) noexcept {
  using namespace lockstep::sim;
  if (id != CLOCK_REALTIME) return ReadMachine(id, t);
  if (t_virtual_ns != 0) {
    Store(t_virtual_ns, t);
    return 0;
  }
  const ClockError* error = g_error.load(std::memory_order_acquire);
  if (error == nullptr) return ReadMachine(id, t);
  Store((MachineRealtime() + error->At(MachineMonotonic())).ns(), t);
  return 0;
}
