#include "sim/nccl/group.h"

#include <algorithm>
#include <thread>

#include "sim/nccl/reduction.h"

namespace lockstep::sim {
namespace {

namespace nccl = foreign::nccl;
using namespace foreign::ncclapi;

}  // namespace

NcclGroup& NcclGroup::OfThread() {
  static thread_local NcclGroup group;
  return group;
}

void NcclGroup::StartEvents(Communicator& comm, Profiler& profiler, bool captured) {
  profiler_ = &profiler;
  mask_ = profiler.mask();
  if ((mask_ & kMaskOfGroupApi) == 0) return;
  ProfilerEvent event;
  event.descriptor.type = nccl::kEventGroupApi;
  event.descriptor.rank = comm.rank();
  event.descriptor.detail.group_api = {captured, depth_};
  group_event_ = profiler.Start(comm.profiled(), event);
  profiler.State(group_event_, nccl::EventState::kGroupStartApiStop);
}

void NcclGroup::CallEvent(Communicator& comm, Stream& stream, NcclTask* task, Profiler& profiler,
                          bool captured) {
  const bool transfer = IsTransfer(task->op);
  const uint32_t type = transfer ? nccl::kEventP2pApi : nccl::kEventCollApi;
  if ((profiler.mask() & (transfer ? kMaskOfP2pApi : kMaskOfCollApi)) == 0) return;
  ProfilerEvent event;
  event.descriptor.type = type;
  event.descriptor.parent = group_event_;
  event.descriptor.rank = comm.rank();
  if (transfer) {
    event.descriptor.detail.p2p_api = {FunctionName(task->op), task->count, TypeName(task->type), &stream,
                                       captured};
  } else {
    event.descriptor.detail.coll_api = {
        FunctionName(task->op), task->count, TypeName(task->type), task->peer, &stream, captured};
  }
  task->api_event = profiler.Start(comm.profiled(), event);
  profiler.Stop(task->api_event);
}

void NcclGroup::Add(Communicator& comm, Stream& stream, const NcclTask& task, Profiler& profiler, Gpu& gpu) {
  const bool captured = gpu.Capturing(stream);
  if (pending_.empty()) StartEvents(comm, profiler, captured);
  pending_.push_back({&comm, &stream, task, profiler.mask()});
  CallEvent(comm, stream, &pending_.back().task, profiler, captured);
}

ncclResult_t NcclGroup::MakeAll() {
  std::vector<ncclResult_t> results(makings_.size(), ncclSuccess);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < makings_.size(); ++i) {
    threads.emplace_back([&results, i, making = makings_[i]] { results[i] = making(); });
  }
  for (std::thread& thread : threads) thread.join();
  makings_.clear();
  const auto failed =
      std::find_if(results.begin(), results.end(), [](ncclResult_t r) { return r != ncclSuccess; });
  return failed == results.end() ? ncclSuccess : *failed;
}

ncclResult_t NcclGroup::End() {
  if (depth_ == 0) return ncclInvalidUsage;
  if (--depth_ > 0) return ncclSuccess;
  const ncclResult_t made = makings_.empty() ? ncclSuccess : MakeAll();
  if (pending_.empty()) return made;
  profiler_->State(group_event_, nccl::EventState::kGroupEndApiStart);
  // Launches one kernel for each communicator, stream and kind, in the order of the first calls.
  std::vector<PendingCall> left = std::move(pending_);
  pending_.clear();
  while (!left.empty()) {
    const PendingCall first = left.front();
    NcclPlan plan;
    for (const PendingCall& g : left) {
      if (g.comm != first.comm || g.stream != first.stream ||
          IsTransfer(g.task.op) != IsTransfer(first.task.op))
        continue;
      plan.tasks.push_back(g.task);
      plan.mask |= g.mask;
    }
    std::erase_if(left, [&](const PendingCall& g) {
      return g.comm == first.comm && g.stream == first.stream &&
             IsTransfer(g.task.op) == IsTransfer(first.task.op);
    });
    first.comm->Launch(std::move(plan), *first.stream, group_event_);
  }
  profiler_->Stop(group_event_);
  group_event_ = nullptr;
  return made;
}

}  // namespace lockstep::sim
