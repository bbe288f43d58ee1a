// Reports the profiler's events of NCCL's network proxy: for each operation of a kernel, a network operation
// to and from each neighbour on another host, and its steps. A collective's ranks form a ring by their
// numbers.
//
// A kernel's operations begin when it runs. Their other steps follow when it has ended. A kernel that
// SIMGPU_NETWORK_CUT keeps from ending (device_settings.h) stays in the step at which the network stopped.
//
// Used by one thread.
#ifndef LOCKSTEP_SIM_NCCL_PROXY_REPORTS_H_
#define LOCKSTEP_SIM_NCCL_PROXY_REPORTS_H_

#include <cstdint>
#include <vector>

#include "sim/device/device_settings.h"
#include "sim/nccl/nccl_task.h"
#include "sim/nccl/profiler.h"
#include "sim/nccl/shared_world.h"

namespace lockstep::sim {

class ProxyReports {
 public:
  // All must outlive it.
  ProxyReports(Profiler& profiler, const SharedWorld& world, const ProfiledComm& profiled,
               const NetworkCut& cut)
      : profiler_(profiler), world_(world), profiled_(profiled), cut_(cut) {}

  // True if the network does not carry the kernel's data, so it never ends.
  bool IsCut(const NcclKernel& kernel) const;
  // `kernel.task_events` are set, and it has begun.
  void ReportStart(NcclKernel& kernel);
  // The kernel has ended.
  void ReportEnd(NcclKernel& kernel);

 private:
  enum class Direction : uint8_t { kReceive, kSend };

  bool OnAnotherHost(int rank) const { return world_.member(rank).host != world_.member(world_.rank()).host; }
  void StartOp(NcclKernel& kernel, void* parent, int peer, Direction direction);
  void* StartStep(const NcclProxyOp& op, int number);
  void ReportWaits(const NcclProxyOp& op, void* step);
  // Reports the step at which the network stops.
  void ReportCut(NcclProxyOp& op);

  Profiler& profiler_;
  const SharedWorld& world_;
  const ProfiledComm& profiled_;
  const NetworkCut& cut_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_NCCL_PROXY_REPORTS_H_
