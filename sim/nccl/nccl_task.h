// NCCL's operations: as the user gave them, and on their way as kernels.
#ifndef LOCKSTEP_SIM_NCCL_NCCL_TASK_H_
#define LOCKSTEP_SIM_NCCL_NCCL_TASK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/device/gpu.h"
#include "sim/nccl/reduction.h"
#include "wire/foreign/nccl.h"

namespace lockstep::sim {

enum class NcclOp { kAllReduce, kBroadcast, kReduce, kAllGather, kReduceScatter, kSend, kRecv };
constexpr bool IsTransfer(NcclOp op) { return op == NcclOp::kSend || op == NcclOp::kRecv; }

// "AllReduce".
inline const char* FunctionName(NcclOp op) {
  switch (op) {
    case NcclOp::kAllReduce:
      return "AllReduce";
    case NcclOp::kBroadcast:
      return "Broadcast";
    case NcclOp::kReduce:
      return "Reduce";
    case NcclOp::kAllGather:
      return "AllGather";
    case NcclOp::kReduceScatter:
      return "ReduceScatter";
    case NcclOp::kSend:
      return "Send";
    case NcclOp::kRecv:
      return "Recv";
  }
  return "";
}

// One NCCL call of the user.
struct NcclTask {
  NcclOp op = NcclOp::kAllReduce;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;
  foreign::ncclapi::ncclDataType_t type = foreign::ncclapi::ncclInt8;
  foreign::ncclapi::ncclRedOp_t reduction = foreign::ncclapi::ncclSum;
  int peer = 0;  // the root, or the other rank of a transfer
  void* api_event = nullptr;
};

inline size_t BytesOf(const NcclTask& task) { return task.count * ElementBytes(task.type); }

// The operations of one kernel. A plan that was captured into a graph runs once per launch of the graph.
struct NcclPlan {
  std::vector<NcclTask> tasks;
  uint32_t mask = 0;  // the profiler's event mask at the time of the calls
};

// One operation of a kernel.
struct NcclStep {
  NcclTask task;
  uint64_t serial = 0;    // number in the communicator's collectives or in the pair's transfers
  uint64_t sequence = 0;  // sequence number in events
  size_t moved = 0;       // bytes of a transfer
  bool data_done = false;
};

// A network operation of a kernel that has begun.
struct NcclProxyOp {
  void* handle = nullptr;
  void* step = nullptr;  // the first one; null: steps are not wanted
  int peer = 0;
  bool sends = false;
};

// A plan that was launched. Its Progress guards the members below `mask`, except for what only the timeline
// uses before the kernel begins.
struct NcclKernel {
  std::vector<NcclStep> steps;
  uint32_t mask = 0;
  ItemRef item;
  int64_t start_ns = -1;
  int64_t end_ns = -1;
  bool begun = false;
  std::vector<void*> task_events;  // parents of the events of device and proxy
  bool has_task_events = false;    // task_events is set
  // Used only by the thread of Progress. `channel_events` are of the channels that have started, one for each
  // parent.
  bool start_reported = false;
  std::vector<void*> channel_events;
  std::vector<NcclProxyOp> proxy_ops;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_NCCL_NCCL_TASK_H_
