#include "sim/nccl/proxy_reports.h"

#include <unistd.h>

namespace lockstep::sim {
namespace {

namespace nccl = foreign::nccl;
using State = nccl::EventState;

constexpr int kSteps = 4;
constexpr int kChunkBytes = 1 << 19;
constexpr uint32_t kMaskOfOps = nccl::kEventProxyOp | nccl::kEventProxyStep;

}  // namespace

bool ProxyReports::IsCut(const NcclKernel& kernel) const {
  if (cut_.operation == 0 || profiled_.nodes < 2 || cut_.from >= world_.ranks() || cut_.to >= world_.ranks())
    return false;
  for (const NcclStep& step : kernel.steps) {
    if (step.serial + 1 < cut_.operation) continue;
    if (!IsTransfer(step.task.op)) return true;
    const bool sends = step.task.op == NcclOp::kSend;
    const int from = sends ? world_.rank() : step.task.peer, to = sends ? step.task.peer : world_.rank();
    if (from == cut_.from && to == cut_.to) return true;
  }
  return false;
}

void ProxyReports::ReportStart(NcclKernel& kernel) {
  if (profiled_.nodes < 2 || (kernel.mask & kMaskOfOps) == 0 || !kernel.proxy_ops.empty()) return;
  const int ranks = world_.ranks(), self = world_.rank();
  for (size_t i = 0; i < kernel.task_events.size() && i < kernel.steps.size(); ++i) {
    const NcclTask& task = kernel.steps[i].task;
    if (!IsTransfer(task.op) || task.op == NcclOp::kSend)
      StartOp(kernel, kernel.task_events[i], IsTransfer(task.op) ? task.peer : (self + 1) % ranks,
              Direction::kSend);
    if (!IsTransfer(task.op) || task.op == NcclOp::kRecv)
      StartOp(kernel, kernel.task_events[i], IsTransfer(task.op) ? task.peer : (self + ranks - 1) % ranks,
              Direction::kReceive);
  }
  if (!IsCut(kernel)) return;
  for (NcclProxyOp& op : kernel.proxy_ops) ReportCut(op);
}

void ProxyReports::StartOp(NcclKernel& kernel, void* parent, int peer, Direction direction) {
  if (!OnAnotherHost(peer)) return;
  NcclProxyOp op;
  op.peer = peer;
  op.sends = direction == Direction::kSend;
  ProfilerEvent event;
  event.descriptor.parent = parent;
  event.descriptor.rank = profiled_.rank;
  event.descriptor.type = nccl::kEventProxyOp;
  event.descriptor.detail = {};
  event.descriptor.detail.proxy_op = {getpid(), 0, peer, kSteps, kChunkBytes, op.sends ? 1 : 0};
  op.handle = profiler_.Start(profiled_, event);
  profiler_.State(op.handle, State::kProxyOpInProgress);
  if ((kernel.mask & nccl::kEventProxyStep) != 0) {
    op.step = StartStep(op, 0);
    profiler_.State(op.step, op.sends ? State::kProxyStepSendGpuWait : State::kProxyStepRecvWait);
  }
  kernel.proxy_ops.push_back(op);
}

void* ProxyReports::StartStep(const NcclProxyOp& op, int number) {
  ProfilerEvent step;
  step.descriptor.type = nccl::kEventProxyStep;
  step.descriptor.parent = op.handle;
  step.descriptor.rank = profiled_.rank;
  step.descriptor.detail.proxy_step.step = number;
  return profiler_.Start(profiled_, step);
}

void ProxyReports::ReportWaits(const NcclProxyOp& op, void* step) {
  if (op.sends) {
    profiler_.State(step, State::kProxyStepSendPeerWait);
    profiler_.State(step, State::kProxyStepSendWait);
  } else {
    profiler_.State(step, State::kProxyStepRecvFlushWait);
    profiler_.State(step, State::kProxyStepRecvGpuWait);
  }
}

void ProxyReports::ReportCut(NcclProxyOp& op) {
  const bool from_here = op.sends && cut_.from == world_.rank() && cut_.to == op.peer;
  // The ranks behind the cut wait for data, and get none from their GPU.
  if (from_here && op.step != nullptr) ReportWaits(op, op.step);
}

void ProxyReports::ReportEnd(NcclKernel& kernel) {
  ReportStart(kernel);
  for (const NcclProxyOp& op : kernel.proxy_ops) {
    for (int number = 0; op.step != nullptr && number < kSteps; ++number) {
      void* const step = number == 0 ? op.step : StartStep(op, number);
      if (number != 0)
        profiler_.State(step, op.sends ? State::kProxyStepSendGpuWait : State::kProxyStepRecvWait);
      ReportWaits(op, step);
      profiler_.Stop(step);
    }
    profiler_.Stop(op.handle);
  }
}

}  // namespace lockstep::sim
