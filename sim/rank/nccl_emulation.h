// Emulates NCCL as its profiler plugin sees it: the communicators, and the events around each launch in the
// order of NCCL 2.28. The events come from the launching thread.
#ifndef LOCKSTEP_SIM_RANK_NCCL_EMULATION_H_
#define LOCKSTEP_SIM_RANK_NCCL_EMULATION_H_

#include <cstdint>
#include <vector>

#include "scenario/scenario.h"
#include "sim/engine/program.h"
#include "wire/foreign/nccl_profiler.h"

namespace lockstep::sim {

class NcclEmulation {
 public:
  // `profiler` may be null; no events are emitted then. The constructor initialises one communicator per
  // group of the rank, as a job does before its first step. Groups without a communicator id are left out.
  NcclEmulation(const Program& program, const foreign::nccl::Profiler* profiler);
  ~NcclEmulation();
  NcclEmulation(const NcclEmulation&) = delete;
  NcclEmulation& operator=(const NcclEmulation&) = delete;

  // Enclose the launch of the collective `op`. Each message of a kernel has its own events. A correlation id
  // that the tool pushes in Begin stays pushed until End.
  void Begin(uint32_t step, uint32_t op);
  void End();

 private:
  struct Open {
    const scenario::Op* op = nullptr;
    uint32_t index = 0;
    uint32_t step = 0;
    int32_t mask = 0;
    int32_t rank = 0;  // rank in the communicator
    void* context = nullptr;
    void* group_api = nullptr;
    std::vector<void*> apis;  // of the collective, or of each message
    void* launch = nullptr;
  };

  void* Start(uint32_t type, void* parent, const foreign::nccl::EventDetail& detail);
  void Stop(void* handle);
  void State(void* handle, foreign::nccl::EventState state);
  void ApiEvents();
  void ApiEvent(uint32_t type, const foreign::nccl::EventDetail& detail);
  void TaskEvents();
  void CollectiveTaskEvent(void* group);

  const Program& program_;
  const foreign::nccl::Profiler* profiler_;
  int32_t mask_ = 0;             // the tool may write it at any time, on any thread
  std::vector<void*> contexts_;  // by group
  Open open_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_RANK_NCCL_EMULATION_H_
