// Progress is the thread of one communicator that carries launched kernels on with the other ranks, as NCCL's
// proxy does. It learns when operations end, moves their data, and reports the profiler's events of the proxy
// and the device.
//
// Any thread may call it. Its lock may be taken under the Gpu's and the communicator's.
#ifndef LOCKSTEP_SIM_NCCL_PROGRESS_H_
#define LOCKSTEP_SIM_NCCL_PROGRESS_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "sim/device/gpu.h"
#include "sim/nccl/nccl_task.h"
#include "sim/nccl/profiler.h"
#include "sim/nccl/proxy_reports.h"
#include "sim/nccl/shared_world.h"

namespace lockstep::sim {

class Progress {
 public:
  // All must outlive it.
  Progress(Gpu& gpu, Profiler& profiler, SharedWorld& world, const ProfiledComm& profiled)
      : gpu_(gpu),
        profiler_(profiler),
        world_(world),
        profiled_(profiled),
        proxies_(profiler, world, profiled, gpu.settings().cut) {}
  ~Progress() { Abort(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Start();
  // Ends the thread. The kernels never end after that.
  void Abort();
  const std::atomic<bool>& stopping() const { return stop_; }

  // Adds a launched kernel. Data moves in the order of these calls.
  void Add(const std::shared_ptr<NcclKernel>& kernel);
  // Returns the object through which the timeline reports the kernel's start.
  std::shared_ptr<ExternalCompletion> MakeRemote(std::shared_ptr<NcclKernel> kernel);
  // Sets the parents of the kernel's later events. Its data waits for this call.
  void SetTaskEvents(NcclKernel& kernel, std::vector<void*> events);
  // Waits until every kernel's last event is reported, or Abort.
  void WaitForReports();

 private:
  class KernelCompletion;

  void Run();
  bool Resolve(NcclKernel& kernel);  // true: the kernel's end has become known
  int64_t NeededStart(const NcclStep& step) const;
  int64_t TransferNs(const NcclTask& task) const;
  bool ReadyForData(const NcclKernel& kernel);
  bool MoveData(NcclKernel& kernel);  // returns true if data was moved
  void Exchange(const NcclTask& task);
  bool MoveMail(NcclStep& step);
  // Reports the start of the kernel's channels, once it has begun on the device.
  void ReportStart(NcclKernel& kernel);
  void DeviceEvents(NcclKernel& kernel);

  Gpu& gpu_;
  Profiler& profiler_;
  SharedWorld& world_;
  const ProfiledComm& profiled_;
  ProxyReports proxies_;  // thread: NCCL Progress
  std::atomic<bool> stop_{false};
  std::atomic<int> unreported_{0};  // kernels that were launched, and whose last event is not reported

  Mutex mutex_;
  std::list<std::shared_ptr<NcclKernel>> kernels_ ABSL_GUARDED_BY(mutex_);  // in the order of launch
  // Used only by the thread: kernels whose data has moved, but whose end is in the future.
  std::vector<std::shared_ptr<NcclKernel>> reporting_;
  std::thread thread_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_NCCL_PROGRESS_H_
