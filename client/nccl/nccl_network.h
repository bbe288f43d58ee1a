// Keeps NCCL's open network operations in the segment's network table (wire/ring/network.h), so that
// `lockstep hang` can name the link on which a collective waits.
//
// It is on together with NcclProgress, unless LOCKSTEP_NETWORK is 0. It costs some stores per event, and one
// read of a clock per event that changes something, in NCCL's proxy thread, without locks. It keeps a private
// copy, with which it fills the table of the next segment if the daemon was restarted.
//
// A step's start may come several times before it begins to wait, because NCCL tries again. The wait for the
// peer is reported at each try. NCCL sends the events of one operation and of its steps on one thread.
#ifndef LOCKSTEP_CLIENT_NCCL_NCCL_NETWORK_H_
#define LOCKSTEP_CLIENT_NCCL_NCCL_NETWORK_H_

#include <atomic>
#include <cstdint>

#include "client/nccl/nccl_event.h"
#include "client/record/timing.h"
#include "wire/ring/network.h"

namespace lockstep::client {

class NcclNetwork {
 public:
  constexpr NcclNetwork() = default;

  // Call it before the first communicator. If it cannot allocate its table, it stays off.
  void TurnOn(const Timing& timing);
  bool on() const { return own_ != nullptr; }

  // ---- NCCL's threads ----
  // kEventProxyOp, kEventProxyStep. `communicator` and `position` are those of the operation of a
  // kEventProxyOp; 0: not known. Returns the event's handle; null: it is not followed, because the table is
  // off or full, or a step's parent is not followed.
  void* OnStart(uint64_t communicator, uint64_t position, const NcclEvent& event);
  void OnState(const void* handle, uint32_t state);
  void OnStop(const void* handle);
  // Returns whether OnStart made this handle. Others have an NcclHandle of another kind, or are of NcclProxy.
  static bool IsHandle(const void* handle) {
    return (reinterpret_cast<uintptr_t>(handle) & kMark) != 0 &&
           (reinterpret_cast<uintptr_t>(handle) & kHandleTag) == kTag;
  }

  // ---- the agent's thread ----
  // From now on it also writes to `table`, which must stay mapped until the next call. Null: to none.
  void Attach(ring::NetworkEntry* table);

 private:
  // A handle's lowest bits are those of NcclHandle::kProxy. Bits 62 and 63 are NcclChain's.
  static constexpr uintptr_t kTag = 2;
  static constexpr uintptr_t kHandleTag = 3;
  static constexpr uintptr_t kMark = uintptr_t{1} << 61;
  static constexpr uintptr_t kStep = uintptr_t{1} << 60;
  static constexpr int kStepShift = 56;
  static constexpr int kPlaceBits = 10;
  static constexpr int kUseShift = kPlaceBits + 2;
  static constexpr uint64_t kUseMask = 0xFFFFFFFFu;
  static constexpr uint32_t kProbes = 16;
  static_assert(ring::kNetworkEntries == 1u << kPlaceBits);

  struct Place {
    uint32_t index = 0;
    uint64_t use = 0;  // 0: none
  };

  static void* HandleOf(Place place);
  // Returns the entry's place if the entry still has the handle's use; else none.
  Place Find(const void* handle) const;
  Place Take();
  template <typename Write>
  void InBoth(uint32_t index, Write write);
  void* StartStep(const NcclEvent& event);
  // Stores the wait of a step, and the time if it is another one than before.
  void SetWait(Place place, uint32_t step, ring::NetworkWait wait);
  int64_t NowNs() const { return timing_->realtime().ns(); }

  const Timing* timing_ = nullptr;     // set before the first communicator
  ring::NetworkEntry* own_ = nullptr;  // the private copy; set before the first communicator
  std::atomic<uint32_t> next_{1};
  std::atomic<ring::NetworkEntry*> shared_{nullptr};
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_NCCL_NCCL_NETWORK_H_
