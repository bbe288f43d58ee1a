// NCCL as its profiler plugin sees it: communicators, and the events around each launch in NCCL 2.28's order,
// from the thread that launches.
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
  // `profiler` may be null: then nothing happens. Initialises one communicator per group of the rank, as a
  // job does before its first step. Groups without a communicator id stay unknown to NCCL.
  NcclEmulation(const Program& program, const foreign::nccl::Profiler* profiler);
  ~NcclEmulation();
  NcclEmulation(const NcclEmulation&) = delete;
  NcclEmulation& operator=(const NcclEmulation&) = delete;

  // Around the launch of the collective `op`: what the tool pushes in Begin (a correlation id) holds until
  // End.
  void Begin(uint32_t step, uint32_t op);
  void End();

 private:
  struct Open {
    const scenario::Op* op = nullptr;
    uint32_t index = 0;
    uint32_t step = 0;
    int32_t mask = 0;
    int32_t rank = 0;  // in the communicator
    void* context = nullptr;
    void* group_api = nullptr;
    void* api = nullptr;
    void* launch = nullptr;
  };

  void* Start(uint32_t type, void* parent, const foreign::nccl::EventDetail& detail);
  void Stop(void* handle);
  void State(void* handle, foreign::nccl::EventState state);
  void ApiEvent();
  void TaskEvents();

  const Program& program_;
  const foreign::nccl::Profiler* profiler_;
  int32_t mask_ = 0;             // the tool writes it at any time, from any thread
  std::vector<void*> contexts_;  // by group
  Open open_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_RANK_NCCL_EMULATION_H_
