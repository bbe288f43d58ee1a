// ncclGroupStart and ncclGroupEnd: what a thread has been given since, and its launch at the end. A call
// outside a group is a group of its own. Each thread has its own.
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
  // Launches when it is the outermost; the first failure of what was put off.
  foreign::ncclapi::ncclResult_t End();
  bool open() const { return depth_ > 0; }

  void Add(Communicator& comm, Stream& stream, const NcclTask& task, Profiler& profiler, Gpu& gpu);
  // Communicators made inside a group come into being at its end, all at once: their ranks may be one
  // thread's.
  void PutOff(std::function<foreign::ncclapi::ncclResult_t()> making) {
    makings_.push_back(std::move(making));
  }

 private:
  struct Given {
    Communicator* comm;
    Stream* stream;
    NcclTask task;
    uint32_t mask;
  };
  void StartEvents(Communicator& comm, Profiler& profiler, bool captured);
  void CallEvent(Communicator& comm, Stream& stream, NcclTask* task, Profiler& profiler, bool captured);
  foreign::ncclapi::ncclResult_t MakeAll();

  int depth_ = 0;
  std::vector<Given> given_;
  std::vector<std::function<foreign::ncclapi::ncclResult_t()>> makings_;
  Profiler* profiler_ = nullptr;
  void* group_event_ = nullptr;
  uint32_t mask_ = 0;  // when the group's event was started
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_NCCL_GROUP_H_
