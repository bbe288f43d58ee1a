// Records the events of NCCL's proxy thread: channels of kernels, network operations and their steps. A
// capture must request them.
//
// An event is open from its start to its stop, in memory that was provided once. Its handle is a number with
// a generation instead of an address. A stop may therefore come at any time or not at all. NCCL sends starts,
// states and stops of one event on one thread. Events of different threads do not interact.
#ifndef LOCKSTEP_CLIENT_NCCL_NCCL_PROXY_H_
#define LOCKSTEP_CLIENT_NCCL_NCCL_PROXY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "client/nccl/nccl_event.h"
#include "client/record/arena.h"
#include "client/record/recorder.h"
#include "client/record/timing.h"
#include "wire/ring/network.h"

namespace lockstep::client {

// The lowest bits of a handle state its kind; 0 is none of the others. kChannel: a channel that only the
// progress table follows.
enum class NcclHandle : uintptr_t { kOther = 0, kOperation = 1, kProxy = 2, kChannel = 3 };
constexpr uintptr_t kHandleBits = 3;

inline NcclHandle KindOfHandle(const void* handle) {
  return static_cast<NcclHandle>(reinterpret_cast<uintptr_t>(handle) & kHandleBits);
}
// The handle of a collective or message is its number. It needs no stop, and children may come at any time.
inline void* OperationHandle(uint64_t operation) {
  return reinterpret_cast<void*>(operation << 2 | static_cast<uintptr_t>(NcclHandle::kOperation));
}
// The handle of a channel is the number of its operation.
inline void* ChannelHandle(uint64_t operation) {
  return reinterpret_cast<void*>(operation << 2 | static_cast<uintptr_t>(NcclHandle::kChannel));
}
// Returns 0 if the handle is not such a number.
inline uint64_t OperationOf(const void* handle) {
  const NcclHandle kind = KindOfHandle(handle);
  if (kind != NcclHandle::kOperation && kind != NcclHandle::kChannel) return 0;
  return reinterpret_cast<uintptr_t>(handle) >> 2;
}

class NcclProxy {
 public:
  constexpr NcclProxy(Recorder& recorder, const ActivityClock& clock, const Window& window)
      : recorder_(recorder), clock_(clock), window_(window) {}

  // ---- NCCL's threads; kEventProxyOp, kEventProxyStep, kEventKernelChannel ----
  // Returns null if the event is not recorded. This happens if all places are taken, which is counted, and to
  // the steps of an operation that is not recorded. NCCL may start a step several times before it begins to
  // wait; these are one step.
  // `followed` is the event's handle of NcclNetwork, or null.
  void* OnStart(uint64_t comm, const NcclEvent& event, void* followed);
  // Returns the handle of NcclNetwork that was passed with the event's start, or null.
  void* FollowedBy(const void* handle);
  // `transferred` and `gpu_timer_ns` are 0 if the state does not provide them.
  void OnState(void* handle, uint32_t state, uint64_t transferred, uint64_t gpu_timer_ns);
  // Returns the operation of a channel that has ended; 0: it was another event.
  uint64_t OnStop(void* handle);

  // ---- the agent's thread ----
  // Call it once, with memory that is all zero and stays for ever. Without memory nothing is followed.
  static constexpr size_t MemoryBytes();
  void UseMemory(Memory memory) { places_.store(reinterpret_cast<Open*>(memory.data)); }
  // Forgets events that earlier captures left open. `pid` is this process's.
  void Begin(uint64_t capture, int32_t pid);

 private:
  static constexpr uint32_t kPlaces = 4096;  // power of two
  static constexpr uint32_t kProbes = 16;

  // The causes of a step's waits, in the order of ring::ProxyOpRecord.
  enum Wait : uint8_t { kNone, kGpu, kPeer, kNetwork, kFlush, kWaits };

  struct Open {
    // In its high half the capture, in its low half the serial of the use, which a handle has too. 0: free.
    std::atomic<uint64_t> use{0};
    uint32_t type = 0;
    uint32_t channel = 0;
    uint64_t comm = 0;
    uint64_t operation = 0;
    HostTime start;
    // The sums of an operation, or of a step, which are added to its operation at its stop.
    int64_t waits[kWaits] = {};
    uint64_t bytes = 0;
    int32_t peer = 0;
    uint32_t steps = 0;
    uint32_t chunk_bytes = 0;
    uint32_t steps_seen = 0;
    uint16_t flags = 0;
    Wait wait = kNone;  // for a step: its current wait, which began at `since`
    HostTime since;
    void* parent = nullptr;  // for a step
    uint32_t step = 0;       // for a step: its number
    // For an operation: the handles of its open steps, by their numbers. NCCL has at most this many.
    void* open_steps[ring::kStepsAtOnce] = {};
    void* followed = nullptr;
    uint64_t gpu_start = 0;
    uint64_t gpu_end = 0;
  };

  Open* Take(uint32_t type, void** handle);
  Open* Find(const void* handle);
  // Returns the handle of a step that has been started and does not wait yet; null: it is another step.
  void* StartedAgain(const Open& op, const NcclEvent& event);
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

#endif  // LOCKSTEP_CLIENT_NCCL_NCCL_PROXY_H_
