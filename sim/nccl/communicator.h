// One rank of one communicator. It launches the operations that it is given as kernels on the simulated
// device, with the profiler's events around them. Its Progress carries them on with the other ranks.
#ifndef LOCKSTEP_SIM_NCCL_COMMUNICATOR_H_
#define LOCKSTEP_SIM_NCCL_COMMUNICATOR_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "sim/device/gpu.h"
#include "sim/nccl/nccl_task.h"
#include "sim/nccl/profiler.h"
#include "sim/nccl/progress.h"
#include "sim/nccl/shared_world.h"

namespace lockstep::sim {

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
  const std::atomic<bool>& stopping() const { return progress_.stopping(); }
  const ProfiledComm& profiled() const { return profiled_; }
  // Counts the splits of this communicator. The number is a part of the next child's id.
  uint64_t NextSplit() { return ++splits_; }

  // Submits the plan's kernel to the device and emits the profiler's events around it. It runs on the thread
  // of the API call. `group_event` is the event of the group.
  void Launch(NcclPlan plan, Stream& stream, void* group_event);
  void Finish();  // waits until all launched kernels are over
  // Ends the progress thread. Kernels on the device never end after that. The object stays, because the
  // device still uses it.
  void Abort() { progress_.Abort(); }

 private:
  std::shared_ptr<NcclKernel> Begin(const NcclPlan& plan, sim::Launch launch);
  void TaskEvents(NcclKernel& kernel);
  std::vector<void*> MakeTaskEvents(const NcclKernel& kernel);
  std::string KernelName(const NcclPlan& plan) const;

  Gpu& gpu_;
  Profiler& profiler_;
  const std::unique_ptr<SharedWorld> world_;
  ProfiledComm profiled_;  // set before the constructor returns
  const int device_;
  std::atomic<uint64_t> splits_ = 0;

  Mutex mutex_;
  uint64_t next_collective_ ABSL_GUARDED_BY(mutex_) = 0;
  // Sequence numbers of events, per function.
  std::map<NcclOp, uint64_t> sequences_ ABSL_GUARDED_BY(mutex_);
  // By peer, and by the direction of the transfer: true if it is sent.
  std::map<std::pair<int, bool>, uint64_t> transfers_ ABSL_GUARDED_BY(mutex_);
  Progress progress_;  // thread-safe; declared last, because its thread uses the members above
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_NCCL_COMMUNICATOR_H_
