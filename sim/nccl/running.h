// A collective kernel on its way: private to Communicator.
#ifndef LOCKSTEP_SIM_NCCL_RUNNING_H_
#define LOCKSTEP_SIM_NCCL_RUNNING_H_

#include <vector>

#include "sim/nccl/communicator.h"

namespace lockstep::sim {

struct Communicator::Step {
  NcclTask task;
  uint64_t serial = 0;    // of the communicator's collectives, or of the pair's transfers
  uint64_t sequence = 0;  // as events have it
  size_t moved = 0;       // bytes, of a transfer
  bool data_done = false;
};

// Under the communicator's mutex, but for what the timeline alone touches before it.
struct Communicator::Running {
  std::vector<Step> steps;
  uint32_t mask = 0;
  sim::Launch launch = sim::Launch::kDirect;
  ItemRef item;
  int64_t start_ns = -1;
  int64_t end_ns = -1;
  bool begun = false;
  std::vector<void*> task_events;  // parents of what the device and the proxy report
  bool events_told = false;
};

class Communicator::KernelRemote : public Remote {
 public:
  KernelRemote(Communicator& comm, std::shared_ptr<Running> running)
      : comm_(comm), running_(std::move(running)) {}
  void Entered(const ItemRef& item, int64_t start_ns) override;
  void Begin(const ItemRef& item) override;

 private:
  Communicator& comm_;
  const std::shared_ptr<Running> running_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_NCCL_RUNNING_H_
