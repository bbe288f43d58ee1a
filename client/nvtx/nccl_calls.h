// NCCL's calls as NVTX shows them: the second source of collectives.
//
// NCCL pushes a range around each of its functions, in a domain "NCCL", with a payload that tells bytes,
// reduction, root or peer (and from 2.25 on the communicator). Where NCCL has no profiler plugin of ours
// (before 2.23, or NCCL_PROFILER_PLUGIN names another) these are the records of collectives and messages;
// where it has, the plugin describes the operations and only the reduction is taken from here, which the
// plugin does not tell.
//
// A call is tied to its kernels as the plugin ties them: a launch serial is pushed to CUPTI as external
// correlation around the call, or around the end of the group that the call is in. A call gives no number
// that other ranks share.
//
// Handlers: the application's threads, in the order of the range's push and pop; no lock, no allocation.
#ifndef LOCKSTEP_CLIENT_NCCL_CALLS_H_
#define LOCKSTEP_CLIENT_NCCL_CALLS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "client/gate.h"
#include "client/nccl/nccl_source.h"
#include "client/nvtx/nvtx_payload.h"
#include "client/nvtx/nvtx_source.h"
#include "client/record/recorder.h"
#include "client/record/timing.h"

namespace lockstep::client {

class NcclCalls {
 public:
  constexpr NcclCalls(Gate& gate, Recorder& recorder, const ActivityClock& clock, const Window& window,
                      NcclSource& nccl)
      : gate_(gate), recorder_(recorder), clock_(clock), window_(window), nccl_(nccl) {}

  // ---- any thread ----
  // A range of the NCCL domain begins and ends. `name`: the function's, as "ncclAllReduce".
  void OnPush(RangeMessage name, const NvtxPayload& payload);
  void OnPop();
  // A call that made a communicator tells so when it ends; kept while idle too, so that a capture knows it.
  void OnPopPayload(const NvtxPayload& payload);

  // ---- our thread ----
  // Every communicator that NVTX told of and the plugin does not know.
  void WriteCommunicators(ThreadSlot& slot);

 private:
  static constexpr uint32_t kCommunicators = 256;

  struct Communicator {
    std::atomic<uint32_t> state{0};  // 0 free, 1 being filled in, 2 there
    uint64_t id = 0;
    int32_t rank = -1;
    int32_t ranks = 0;
    uint32_t device_plus_1 = 0;
  };

  bool Recording() const {
    return gate_.nvtx.load(std::memory_order_relaxed) != 0 && gate_.nccl.load(std::memory_order_relaxed) != 0;
  }
  void Begin(ThreadSlot& slot);
  void Enter(ThreadSlot& slot, const char* function, const NvtxPayload& payload);
  void Operation(ThreadSlot& slot, const char* function, const NvtxPayload& payload, uint64_t launch);
  void Collective(ThreadSlot& slot, const char* function, const NvtxPayload& payload, uint64_t launch);
  void Message(ThreadSlot& slot, const char* function, const NvtxPayload& payload, uint64_t launch);
  static void WriteCommunicator(ThreadSlot& slot, const Communicator& communicator);

  Gate& gate_;
  Recorder& recorder_;
  const ActivityClock& clock_;
  const Window& window_;
  NcclSource& nccl_;
  std::atomic<uint32_t> next_communicator_{0};
  Communicator communicators_[kCommunicators];
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_NCCL_CALLS_H_
