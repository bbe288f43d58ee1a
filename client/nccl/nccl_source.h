// Records communicators, collectives and point-to-point operations through NCCL's profiler plugin, and joins
// each operation to its kernel. For this it pushes a serial number to CUPTI as external correlation around
// the launch.
//
// While idle, NCCL's mask is 0 and NCCL makes no calls, unless progress is followed. A capture writes the
// event types that it wants into the mask, and sets it back when it ends. A stop may come for an event that
// started before that. Handles are therefore addresses that stay valid for ever, and a stop frees nothing.
#ifndef LOCKSTEP_CLIENT_NCCL_NCCL_SOURCE_H_
#define LOCKSTEP_CLIENT_NCCL_NCCL_SOURCE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "client/cupti/cupti_api.h"
#include "client/nccl/nccl_event.h"
#include "client/nccl/nccl_network.h"
#include "client/nccl/nccl_progress.h"
#include "client/nccl/nccl_proxy.h"
#include "client/nccl/pair_counts.h"
#include "client/record/operation_log.h"
#include "client/record/recorder.h"
#include "client/record/recording_flags.h"
#include "client/record/timing.h"
#include "wire/foreign/nccl_profiler.h"

namespace lockstep::client {

class NcclSource {
 public:
  constexpr NcclSource(RecordingFlags& flags, Recorder& recorder, const ActivityClock& clock,
                       const Window& window, OperationLog& log)
      : flags_(flags),
        recorder_(recorder),
        clock_(clock),
        window_(window),
        progress_(flags, log),
        proxy_(recorder, clock, window) {}

  // A communicator of this process, from its init to its finalize. kUnnamed: its version provides the other
  // fields only with the first event.
  struct Communicator {
    static constexpr uint32_t kNameBytes = 64;
    enum State : uint32_t { kFree, kFilling, kUnnamed, kLiving };
    std::atomic<uint32_t> state{kFree};
    void* chained = nullptr;  // context of the chained plugin (nccl_chain.h)
    bool is_chained = false;  // it has such a context, which may be null
    uint64_t id = 0;
    int32_t rank = 0;
    int32_t ranks = 0;
    int32_t nodes = 0;
    char name[kNameBytes] = {};
    uint32_t progress = NcclProgress::kNoSlot;
  };

  // ---- NCCL's threads ----
  // Returns null if the table of communicators is full. Its events are then recorded without a communicator.
  Communicator* OnInit(uint64_t id, int32_t* mask, const char* name, int32_t nodes, int32_t ranks,
                       int32_t rank);
  // For versions before 4, in which NCCL does not name the communicator at init.
  Communicator* OnInitUnnamed(int32_t* mask);
  void OnFinalize(Communicator* communicator);
  // Returns the handle that NCCL passes back later.
  void* OnStart(Communicator* communicator, const NcclEvent& event);
  // `transferred` and `gpu_timer_ns` are 0 if the state does not provide them.
  void OnState(void* handle, uint32_t state, uint64_t transferred, uint64_t gpu_timer_ns) {
    if (KindOfHandle(handle) != NcclHandle::kProxy) return;
    if (NcclNetwork::IsHandle(handle)) return network_.OnState(handle, state);
    proxy_.OnState(handle, state, transferred, gpu_timer_ns);
    network_.OnState(proxy_.FollowedBy(handle), state);
  }
  void OnStop(void* handle);
  // Returns whether `context` is a Communicator of ours.
  bool Owns(const void* context) const {
    return context >= communicators_ && context < communicators_ + kCommunicators;
  }

  // ---- any thread: for NCCL's calls through NVTX (nccl_calls.h) ----
  // True if NCCL has loaded our plugin, which then describes the operations.
  bool plugged_in() const { return mask_.load(std::memory_order_relaxed) != nullptr; }
  // Returns a serial to push to CUPTI around the next launch on this thread, until Unpush. 0: CUPTI records
  // nothing.
  uint64_t NewLaunch();
  bool Push(uint64_t launch);
  void Unpush();
  // Pops everything that an earlier capture left pushed on this thread.
  void UnpushAll();
  uint64_t NewOperation() { return next_operation_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t NextInPair(uint64_t communicator, int32_t peer, uint16_t direction) {
    return pairs_.Next(communicator, peer, direction);
  }

  // The table of progress. Turn it on before NCCL can find the tables.
  NcclProgress& progress() { return progress_; }
  // The table of network operations, with the same rule.
  NcclNetwork& network() { return network_; }

  // ---- the agent's thread ----
  // Records events of NCCL's proxy thread. It needs memory: see NcclProxy.
  NcclProxy& proxy() { return proxy_; }
  // From now on NCCL emits events. `cupti` is null if CUPTI records nothing; operations then have no launch.
  // `activities` are those of ring::Activities.
  void Begin(const CuptiApi* cupti, uint32_t activities);
  // Adds our bits to NCCL's word again, because the chained plugin may have overwritten it. Called regularly
  // during a capture.
  void Refresh();
  // Call it before the first init if a chained plugin also writes NCCL's word.
  void SetChained() { chained_.store(true); }
  // Returns whether that plugin requested events of this type from NCCL.
  bool ChainedWants(uint64_t type) const;
  // Returns whether we request events from NCCL.
  bool asking() const { return asked_.load(std::memory_order_relaxed) != 0; }
  // Counts an event of ours that was dropped because no handle for both plugins was free.
  void CountNoPlace(uint64_t type);
  void End();
  // Writes every living communicator, at the start of a window.
  void WriteCommunicators(ThreadSlot& slot);

 private:
  static constexpr uint32_t kCommunicators = 512;

  Communicator* TakePlace();
  void Fill(Communicator& place, uint64_t id, const char* name, int32_t nodes, int32_t ranks, int32_t rank);
  // Returns whether this call has filled the place.
  bool Learn(Communicator& communicator, const NcclEvent& event);
  // Requests events for a capture; 0: only those that progress needs.
  void Ask(int32_t bits);
  // Notes the event in the table of progress. Returns the operation of a launch or a channel; 0: none.
  uint64_t FollowStart(Communicator* communicator, const NcclEvent& event);
  // Notes a network operation or a step in its table. Returns its handle; null: it is not followed.
  void* FollowNetwork(uint64_t comm, const NcclEvent& event);
  // kEventProxyOp, kEventProxyStep.
  void* OnProxyStart(const Communicator* communicator, const NcclEvent& event);
  bool Captures(uint64_t type) const {
    return (static_cast<uint64_t>(captured_.load(std::memory_order_relaxed)) & type) != 0;
  }
  void* Record(ThreadSlot& slot, uint64_t comm, const NcclEvent& event, uint64_t operation);
  void WriteCommunicator(ThreadSlot& slot, const Communicator& communicator);
  // `operation`: its number; 0: it receives a new one.
  void* Collective(ThreadSlot& slot, uint64_t comm, const NcclEvent& event, uint64_t operation);
  void* CopyEngineCollective(ThreadSlot& slot, uint64_t comm, const NcclEvent& event, uint64_t operation);
  void* PointToPoint(ThreadSlot& slot, uint64_t comm, const NcclEvent& event, uint64_t operation);
  void* LaunchStarts(ThreadSlot& slot);
  uint32_t Intern(ThreadSlot& slot, const char* text);

  RecordingFlags& flags_;
  Recorder& recorder_;
  const ActivityClock& clock_;
  const Window& window_;
  NcclProgress progress_;
  NcclNetwork network_;
  NcclProxy proxy_;
  std::atomic<int32_t*> mask_{nullptr};  // NCCL's own word
  std::atomic<int32_t> asked_{0};        // our bits in it
  std::atomic<int32_t> captured_{0};     // those of the running capture
  std::atomic<int32_t> others_{0};       // the bits that were there without ours
  std::atomic<bool> chained_{false};
  std::atomic<uint64_t> next_launch_{1};
  std::atomic<uint64_t> next_operation_{1};
  std::atomic<foreign::cupti::ActivityPushExternalCorrelationIdFn> push_{nullptr};
  std::atomic<foreign::cupti::ActivityPopExternalCorrelationIdFn> pop_{nullptr};
  Communicator communicators_[kCommunicators];
  PairCounts pairs_;  // of the running capture
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_NCCL_NCCL_SOURCE_H_
