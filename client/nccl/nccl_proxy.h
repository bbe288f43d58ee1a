// What NCCL's proxy thread tells of operations: channels of kernels, network operations and their steps.
// Opt-in.
//
// An event is open from its start to its stop, in memory handed in once; its handle is a number with a
// generation, never an address, so that a stop may come at any time or not at all. Starts, states and stops
// of one event come from one thread, as NCCL does it; events of different threads never meet.
#ifndef LOCKSTEP_CLIENT_NCCL_PROXY_H_
#define LOCKSTEP_CLIENT_NCCL_PROXY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "client/nccl/nccl_event.h"
#include "client/record/arena.h"
#include "client/record/recorder.h"
#include "client/record/timing.h"

namespace lockstep::client {

// Handles are told apart by their lowest bits; 0 is none of them.
enum class NcclHandle : uintptr_t { kOther = 0, kOperation = 1, kProxy = 2 };
constexpr uintptr_t kHandleBits = 3;

inline NcclHandle KindOfHandle(const void* handle) {
  return static_cast<NcclHandle>(reinterpret_cast<uintptr_t>(handle) & kHandleBits);
}
// The handle of a collective or message is its number: there is nothing to stop, and children may come at any
// time.
inline void* OperationHandle(uint64_t operation) {
  return reinterpret_cast<void*>(operation << 2 | static_cast<uintptr_t>(NcclHandle::kOperation));
}
// 0: not one.
inline uint64_t OperationOf(const void* handle) {
  if (KindOfHandle(handle) != NcclHandle::kOperation) return 0;
  return reinterpret_cast<uintptr_t>(handle) >> 2;
}

class NcclProxy {
 public:
  constexpr NcclProxy(Recorder& recorder, const ActivityClock& clock, const Window& window)
      : recorder_(recorder), clock_(clock), window_(window) {}

  // ---- NCCL's threads; kEventProxyOp, kEventProxyStep, kEventKernelChannel ----
  // Null: not followed (no place, counted; or a step of an operation that is not).
  void* OnStart(uint64_t comm, const NcclEvent& event);
  // `transferred`, `gpu_timer_ns`: 0 where the state tells none.
  void OnState(void* handle, uint32_t state, uint64_t transferred, uint64_t gpu_timer_ns);
  void OnStop(void* handle);

  // ---- our thread ----
  // Once, all zero, kept for ever; without it nothing is followed.
  static constexpr size_t MemoryBytes();
  void UseMemory(Memory memory) { places_.store(reinterpret_cast<Open*>(memory.data)); }
  // What earlier captures left open is forgotten. `pid`: this process's.
  void Begin(uint64_t capture, int32_t pid);

 private:
  static constexpr uint32_t kPlaces = 4096;  // power of two
  static constexpr uint32_t kProbes = 16;

  // Ends of what a step waits for; ring::ProxyOpRecord's order.
  enum Wait : uint8_t { kNone, kGpu, kPeer, kNetwork, kFlush, kWaits };

  struct Open {
    // Capture << 32 | serial of the use; 0: free. A handle holds the low half of the serial.
    std::atomic<uint64_t> use{0};
    uint32_t type = 0;
    uint32_t channel = 0;
    uint64_t comm = 0;
    uint64_t operation = 0;
    HostTime start;
    // Of an operation, or of a step that is added to its operation at its stop.
    int64_t waits[kWaits] = {};
    uint64_t bytes = 0;
    int32_t peer = 0;
    uint32_t steps = 0;
    uint32_t chunk_bytes = 0;
    uint32_t steps_seen = 0;
    uint16_t flags = 0;
    Wait wait = kNone;  // of a step: what it waits for since `since`
    HostTime since;
    void* parent = nullptr;  // of a step
    uint64_t gpu_start = 0;
    uint64_t gpu_end = 0;
  };

  Open* Take(uint32_t type, void** handle);
  Open* Find(const void* handle);
  void WriteChannel(ThreadSlot& slot, const Open& open, HostTime now);
  void WriteOp(ThreadSlot& slot, const Open& open, HostTime now);

  Recorder& recorder_;
  const ActivityClock& clock_;
  const Window& window_;
  std::atomic<uint64_t> capture_{0};
  std::atomic<uint32_t> next_{1};
  int32_t pid_ = 0;
  std::atomic<Open*> places_{nullptr};
};

constexpr size_t NcclProxy::MemoryBytes() { return kPlaces * sizeof(Open); }

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_NCCL_PROXY_H_
