// Records NCCL's calls as NVTX shows them: the second source of collectives.
//
// NCCL pushes a range around each of its functions in the domain "NCCL". Its payload has bytes, reduction,
// root or peer, and from 2.25 on the communicator.
//
// NCCL may lack our profiler plugin (before 2.23, or if NCCL_PROFILER_PLUGIN names another). Then these calls
// give the records of collectives and messages. With our plugin, the plugin describes the operations. Only
// the reduction comes from here, because the plugin does not provide it.
//
// A call is joined to its kernels as in the plugin. A serial number is pushed to CUPTI as external
// correlation around the call, or around the end of the call's group. A call has no number that other ranks
// share.
//
// The handlers run on the application's threads, in the order of push and pop. They take no lock and do not
// allocate.
#ifndef LOCKSTEP_CLIENT_NVTX_NCCL_CALLS_H_
#define LOCKSTEP_CLIENT_NVTX_NCCL_CALLS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "client/nccl/nccl_source.h"
#include "client/nvtx/nvtx_payload.h"
#include "client/nvtx/nvtx_source.h"
#include "client/record/recorder.h"
#include "client/record/recording_flags.h"
#include "client/record/timing.h"

namespace lockstep::client {

class NcclCalls {
 public:
  constexpr NcclCalls(RecordingFlags& flags, Recorder& recorder, const ActivityClock& clock,
                      const Window& window, NcclSource& nccl)
      : flags_(flags), recorder_(recorder), clock_(clock), window_(window), nccl_(nccl) {}

  // ---- any thread ----
  // A range of the NCCL domain begins or ends. `name` is the function's name, such as "ncclAllReduce".
  void OnPush(RangeMessage name, const NvtxPayload& payload);
  void OnPop();
  // A call that made a communicator describes it in the payload of its end. It is kept while idle too, for
  // later captures.
  void OnPopPayload(const NvtxPayload& payload);

  // ---- the agent's thread ----
  // Writes every communicator that NVTX described and the plugin does not know.
  void WriteCommunicators(ThreadSlot& slot);

 private:
  static constexpr uint32_t kCommunicators = 256;

  struct Communicator {
    std::atomic<uint32_t> state{0};  // 0 free, 1 being filled in, 2 valid
    uint64_t id = 0;
    int32_t rank = -1;
    int32_t ranks = 0;
    uint32_t device_plus_1 = 0;
  };

  bool Recording() const {
    return flags_.nvtx.load(std::memory_order_relaxed) != 0 &&
           flags_.nccl.load(std::memory_order_relaxed) != 0;
  }
  void Begin(ThreadSlot& slot);
  void Enter(ThreadSlot& slot, const char* function, const NvtxPayload& payload);
  void Operation(ThreadSlot& slot, const char* function, const NvtxPayload& payload, uint64_t launch);
  void Collective(ThreadSlot& slot, const char* function, const NvtxPayload& payload, uint64_t launch);
  void Message(ThreadSlot& slot, const char* function, const NvtxPayload& payload, uint64_t launch);
  static void WriteCommunicator(ThreadSlot& slot, const Communicator& communicator);

  RecordingFlags& flags_;
  Recorder& recorder_;
  const ActivityClock& clock_;
  const Window& window_;
  NcclSource& nccl_;
  std::atomic<uint32_t> next_communicator_{0};
  Communicator communicators_[kCommunicators];
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_NVTX_NCCL_CALLS_H_
