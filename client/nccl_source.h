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

#include "client/cupti_api.h"
#include "client/gate.h"
#include "client/recorder.h"
#include "client/timing.h"
#include "common/foreign/nccl_profiler.h"

namespace lockstep::client {

class NcclSource {
 public:
  constexpr NcclSource(Gate& gate, Recorder& recorder, const ActivityClock& clock, const Window& window)
      : gate_(gate), recorder_(recorder), clock_(clock), window_(window) {}

  // One communicator of this process, from its init to its finalize.
  struct Communicator {
    static constexpr uint32_t kNameBytes = 64;
    enum State : uint32_t { kFree, kFilling, kLiving };
    std::atomic<uint32_t> state{kFree};
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
  void OnFinalize(Communicator* communicator);
  // The handle for NCCL to pass back.
  void* OnStart(const Communicator* communicator, uint64_t type, const foreign::nccl::EventDescriptor& event);
  void OnStop(void* handle);

  // ---- our thread ----
  // From now on NCCL emits events. `cupti` is null where CUPTI records nothing: operations then have no
  // launch.
  void Begin(const CuptiApi* cupti);
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

  void SetMask(int32_t mask);
  void WriteCommunicator(ThreadSlot& slot, const Communicator& communicator);
  void Collective(ThreadSlot& slot, const Communicator* communicator,
                  const foreign::nccl::EventDetail& detail);
  void PointToPoint(ThreadSlot& slot, const Communicator* communicator,
                    const foreign::nccl::EventDetail& detail);
  void* LaunchStarts(ThreadSlot& slot);
  uint64_t NextInPair(uint64_t communicator, int32_t peer, uint16_t direction);
  uint32_t Intern(ThreadSlot& slot, const char* text);

  Gate& gate_;
  Recorder& recorder_;
  const ActivityClock& clock_;
  const Window& window_;
  std::atomic<int32_t*> mask_{nullptr};  // NCCL's own word
  std::atomic<uint64_t> next_launch_{1};
  std::atomic<foreign::cupti::ActivityPushExternalCorrelationIdFn> push_{nullptr};
  std::atomic<foreign::cupti::ActivityPopExternalCorrelationIdFn> pop_{nullptr};
  Communicator communicators_[kCommunicators];
  PairCount pairs_[kPairs];
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_NCCL_SOURCE_H_
