// Implements ncclGroupStart and ncclGroupEnd: it collects the calls of a thread and launches them at the end.
// A call outside a group forms a group of its own. Each thread has its own object.
#ifndef LOCKSTEP_SIM_NCCL_GROUP_H_
#define LOCKSTEP_SIM_NCCL_GROUP_H_

#include <functional>
#include <vector>

#include "sim/nccl/communicator.h"

namespace lockstep::sim {

class NcclGroup {
 public:
  static NcclGroup& OfThread();

  void Start() { ++depth_; }
  // Launches the calls if this is the outermost group. Returns the first failure of the deferred functions.
  foreign::ncclapi::ncclResult_t End();
  bool open() const { return depth_ > 0; }

  void Add(Communicator& comm, Stream& stream, const NcclTask& task, Profiler& profiler, Gpu& gpu);
  // Defers the creation of communicators to the end of the group, where all of them are created at once.
  // Otherwise several ranks of one thread would wait for each other.
  void Defer(std::function<foreign::ncclapi::ncclResult_t()> making) {
    makings_.push_back(std::move(making));
  }

 private:
  struct PendingCall {
    Communicator* comm;
    Stream* stream;
    NcclTask task;
    uint32_t mask;
  };
  void StartEvents(Communicator& comm, Profiler& profiler, bool captured);
  void CallEvent(Communicator& comm, Stream& stream, NcclTask* task, Profiler& profiler, bool captured);
  foreign::ncclapi::ncclResult_t MakeAll();

  int depth_ = 0;
  std::vector<PendingCall> pending_;
  std::vector<std::function<foreign::ncclapi::ncclResult_t()>> makings_;
  Profiler* profiler_ = nullptr;
  void* group_event_ = nullptr;
  uint32_t mask_ = 0;  // at the start of the group's event
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_NCCL_GROUP_H_
