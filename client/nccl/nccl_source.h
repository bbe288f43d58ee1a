// NCCL's profiler plugin as a source of records: communicators, collectives, point-to-point operations, and
// the tie between an operation and its kernel (a launch serial pushed to CUPTI as external correlation around
// the launch).
//
// While idle NCCL's own mask is 0 and it calls nothing; a capture stores the mask and clears it again. A stop
// may come for an event started before the mask was cleared, so handles are addresses that stay valid for
// ever and nothing is freed at a stop.
#ifndef LOCKSTEP_CLIENT_NCCL_SOURCE_H_
#define LOCKSTEP_CLIENT_NCCL_SOURCE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "client/cupti/cupti_api.h"
#include "client/gate.h"
#include "client/nccl/nccl_event.h"
#include "client/nccl/nccl_proxy.h"
#include "client/record/recorder.h"
#include "client/record/timing.h"
#include "wire/foreign/nccl_profiler.h"

namespace lockstep::client {

class NcclSource {
 public:
  constexpr NcclSource(Gate& gate, Recorder& recorder, const ActivityClock& clock, const Window& window)
      : gate_(gate), recorder_(recorder), clock_(clock), window_(window), proxy_(recorder, clock, window) {}

  // One communicator of this process, from its init to its finalize. kUnnamed: of a version that tells the
  // rest with the first event.
  struct Communicator {
    static constexpr uint32_t kNameBytes = 64;
    enum State : uint32_t { kFree, kFilling, kUnnamed, kLiving };
    std::atomic<uint32_t> state{kFree};
    void* chained = nullptr;  // the context of the plugin behind us (nccl_chain.h)
    bool is_chained = false;  // it has one, if only null
    uint64_t id = 0;
    int32_t rank = 0;
    int32_t ranks = 0;
    int32_t nodes = 0;
    char name[kNameBytes] = {};
  };

  // ---- NCCL's threads ----
  // Null when the table of communicators is full; then its events are recorded without one.
  Communicator* OnInit(uint64_t id, int32_t* mask, const char* name, int32_t nodes, int32_t ranks,
                       int32_t rank);
  // Before version 4 NCCL does not say which communicator it makes.
  Communicator* OnInitUnnamed(int32_t* mask);
  void OnFinalize(Communicator* communicator);
  // The handle for NCCL to pass back.
  void* OnStart(Communicator* communicator, const NcclEvent& event);
  // `transferred`, `gpu_timer_ns`: 0 where the state tells none.
  void OnState(void* handle, uint32_t state, uint64_t transferred, uint64_t gpu_timer_ns) {
    if (KindOfHandle(handle) == NcclHandle::kProxy) proxy_.OnState(handle, state, transferred, gpu_timer_ns);
  }
  void OnStop(void* handle);
  // Whether `context` is a Communicator of ours.
  bool Owns(const void* context) const {
    return context >= communicators_ && context < communicators_ + kCommunicators;
  }

  // ---- any thread: for what NVTX shows of NCCL (nccl_calls.h) ----
  // NCCL has the plugin: it describes the operations.
  bool plugged_in() const { return mask_.load(std::memory_order_relaxed) != nullptr; }
  // A serial pushed to CUPTI around what follows on this thread, until Unpush; 0: CUPTI records nothing.
  uint64_t NewLaunch();
  bool Push(uint64_t launch);
  void Unpush();
  // Takes back what an earlier capture left pushed on this thread.
  void UnpushAll();
  uint64_t NewOperation() { return next_operation_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t NextInPair(uint64_t communicator, int32_t peer, uint16_t direction);

  // ---- our thread ----
  // Memory for what NCCL's proxy thread tells: see NcclProxy.
  NcclProxy& proxy() { return proxy_; }
  // From now on NCCL emits events. `cupti` is null where CUPTI records nothing: operations then have no
  // launch. `activities`: ring::Activities.
  void Begin(const CuptiApi* cupti, uint32_t activities);
  // The plugin behind us may have written NCCL's word: ours go back into it. Every so often during a capture.
  void Refresh();
  // Before the first init: a plugin behind us writes NCCL's word too.
  void SetChained() { chained_.store(true); }
  // Whether that plugin asked NCCL for events of this type.
  bool OthersWant(uint64_t type) const;
  // Whether NCCL is asked for events of ours.
  bool asking() const { return asked_.load(std::memory_order_relaxed) != 0; }
  // An event of ours was given up because its handle could not be carried beside the other's.
  void CountNoPlace(uint64_t type);
  void End();
  // Every living communicator, at the start of a window.
  void WriteCommunicators(ThreadSlot& slot);

 private:
  static constexpr uint32_t kCommunicators = 512;
  static constexpr uint32_t kPairs = 4096;  // (communicator, peer, direction); power of two

  struct PairCount {
    std::atomic<uint64_t> key{0};
    std::atomic<uint64_t> next{0};
  };

  Communicator* TakePlace();
  void Fill(Communicator& place, uint64_t id, const char* name, int32_t nodes, int32_t ranks, int32_t rank);
  void Learn(ThreadSlot& slot, Communicator& communicator, const NcclEvent& event);
  void Ask(int32_t bits);
  void WriteCommunicator(ThreadSlot& slot, const Communicator& communicator);
  void* Collective(ThreadSlot& slot, uint64_t comm, const NcclEvent& event);
  void* PointToPoint(ThreadSlot& slot, uint64_t comm, const NcclEvent& event);
  void* LaunchStarts(ThreadSlot& slot);
  uint32_t Intern(ThreadSlot& slot, const char* text);

  Gate& gate_;
  Recorder& recorder_;
  const ActivityClock& clock_;
  const Window& window_;
  NcclProxy proxy_;
  std::atomic<int32_t*> mask_{nullptr};  // NCCL's own word
  std::atomic<int32_t> asked_{0};        // the bits of it that are ours
  std::atomic<int32_t> others_{0};       // the bits that were there without us
  std::atomic<bool> chained_{false};
  std::atomic<uint64_t> next_launch_{1};
  std::atomic<uint64_t> next_operation_{1};
  std::atomic<foreign::cupti::ActivityPushExternalCorrelationIdFn> push_{nullptr};
  std::atomic<foreign::cupti::ActivityPopExternalCorrelationIdFn> pop_{nullptr};
  Communicator communicators_[kCommunicators];
  PairCount pairs_[kPairs];
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_NCCL_SOURCE_H_
