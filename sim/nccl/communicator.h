// One rank of one communicator: the operations it was given, their kernels on the simulated device, and the
// thread that carries them on with the other ranks, as NCCL's proxy does.
#ifndef LOCKSTEP_SIM_NCCL_COMMUNICATOR_H_
#define LOCKSTEP_SIM_NCCL_COMMUNICATOR_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "sim/device/gpu.h"
#include "sim/nccl/profiler.h"
#include "sim/nccl/shared_world.h"
#include "wire/foreign/nccl.h"

namespace lockstep::sim {

enum class NcclOp { kAllReduce, kBroadcast, kReduce, kAllGather, kReduceScatter, kSend, kRecv };
constexpr bool IsTransfer(NcclOp op) { return op == NcclOp::kSend || op == NcclOp::kRecv; }
const char* FunctionName(NcclOp op);  // "AllReduce"

// One call, as the user gave it.
struct NcclTask {
  NcclOp op = NcclOp::kAllReduce;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;
  foreign::ncclapi::ncclDataType_t type = foreign::ncclapi::ncclInt8;
  foreign::ncclapi::ncclRedOp_t reduction = foreign::ncclapi::ncclSum;
  int peer = 0;  // root, or the other end
  void* api_event = nullptr;
};

// What goes to the device as one kernel. Persistent ones were captured into a graph: they run once per
// launch.
struct NcclPlan {
  std::vector<NcclTask> tasks;
  uint32_t mask = 0;  // the profiler's, when the tasks were given
};

class Communicator {
 public:
  Communicator(Gpu& gpu, Profiler& profiler, std::unique_ptr<SharedWorld> world, uint64_t id,
               std::string name, int device);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  uint64_t id() const { return profiled_.id; }
  int ranks() const { return world_->ranks(); }
  int rank() const { return world_->rank(); }
  int device() const { return device_; }
  SharedWorld& world() { return *world_; }
  const std::atomic<bool>& stopping() const { return stop_; }
  const ProfiledComm& profiled() const { return profiled_; }
  // How often this communicator was split: names the next child.
  uint64_t NextSplit() { return ++splits_; }

  // Gives the plan's kernel to the device, with the profiler's events around it, on the thread of the API
  // call. `group` is the group's event.
  void Launch(NcclPlan plan, Stream& stream, void* group_event);
  void Finish();  // until all that was launched is over
  // The progress thread ends; what is on the device never will. The object stays, for the device still knows
  // it.
  void Abort();

 private:
  struct Step;  // one operation of a running kernel
  struct Running;
  class KernelRemote;

  std::shared_ptr<Running> Begin(const NcclPlan& plan, sim::Launch launch);
  void TaskEvents(Running& running);
  std::vector<void*> MakeTaskEvents(const Running& running);
  int64_t TransferNs(const NcclTask& task) const;
  std::string KernelName(const NcclPlan& plan) const;

  // The progress thread.
  void Run();
  bool Resolve(Running& running);  // true: something was learnt
  int64_t NeededStart(const Step& step) const;
  bool MoveData(Running& running);  // true: something was moved
  void Exchange(const NcclTask& task);
  bool MoveMail(Step& step);
  bool ReadyForData(const Running& running);
  void DeviceEvents(const Running& running);

  Gpu& gpu_;
  Profiler& profiler_;
  const std::unique_ptr<SharedWorld> world_;
  ProfiledComm profiled_;
  const int device_;
  std::atomic<bool> stop_{false};
  std::atomic<int> open_{0};  // launched, and not yet reported on
  uint64_t splits_ = 0;

  std::mutex mutex_;                             // everything below
  std::list<std::shared_ptr<Running>> running_;  // in the order of launch
  uint64_t next_collective_ = 0;
  std::map<NcclOp, uint64_t> sequences_;                // as events number them, per function
  std::map<std::pair<int, bool>, uint64_t> transfers_;  // by peer and whether it is sent
  std::vector<std::shared_ptr<Running>>
      reporting_;  // the progress thread's: moved, but for the clock not over
  std::thread thread_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_NCCL_COMMUNICATOR_H_
