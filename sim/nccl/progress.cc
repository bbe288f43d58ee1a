// The progress thread of a communicator: learns when operations end, moves their data, reports what the proxy
// and the device see.
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "sim/nccl/communicator.h"
#include "sim/nccl/reduction.h"
#include "sim/nccl/running.h"

namespace lockstep::sim {
namespace {

namespace nccl = foreign::nccl;

constexpr int64_t kGlobalTimerStepNs = 32;  // of the device's clock
constexpr int kProxySteps = 4;
constexpr uint32_t kDeviceMask = nccl::kEventKernelChannel | nccl::kEventProxyOp | nccl::kEventProxyStep;

}  // namespace

void Communicator::Run() {
  prctl(PR_SET_NAME, "NCCL Progress");
  while (!stop_.load()) {
    const uint32_t seen = world_->news();
    std::vector<std::shared_ptr<Running>> open;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      open.assign(running_.begin(), running_.end());
    }
    bool moved = false;
    for (const auto& running : open) moved = Resolve(*running) || moved;
    // Data goes in the order of the launches.
    for (const auto& running : open) {
      if (!ReadyForData(*running)) break;
      moved = MoveData(*running) || moved;
      if (!std::all_of(running->steps.begin(), running->steps.end(),
                       [](const Step& s) { return s.data_done; }))
        break;
      {
        std::lock_guard<std::mutex> lock(mutex_);
        running_.remove(running);
      }
      gpu_.timeline().SetDone(running->item);
      if (running->mask & kDeviceMask)
        reporting_.push_back(running);
      else
        open_.fetch_sub(1);
      moved = true;
    }
    const int64_t now = MonotonicNs();
    std::erase_if(reporting_, [&](const std::shared_ptr<Running>& running) {
      if (running->end_ns > now) return false;
      DeviceEvents(*running);
      open_.fetch_sub(1);
      return true;
    });
    if (!moved) world_->WaitForNews(seen);
  }
}

bool Communicator::ReadyForData(const Running& running) {
  std::lock_guard<std::mutex> lock(mutex_);
  return running.begun && running.end_ns >= 0 && running.events_told;
}

// When all are there whose data this rank needs; -1: not known yet.
int64_t Communicator::NeededStart(const Step& step) const {
  const NcclTask& task = step.task;
  const int self = world_->rank();
  int64_t latest = -1;
  const auto need = [&](int64_t start) {
    if (start < 0) return false;
    latest = std::max(latest, start);
    return true;
  };
  using End = SharedWorld::End;
  if (IsTransfer(task.op)) {
    const int from = task.op == NcclOp::kSend ? self : task.peer,
              to = task.op == NcclOp::kSend ? task.peer : self;
    const bool both = need(world_->StartOfTransfer(from, to, End::kSender, step.serial)) &&
                      need(world_->StartOfTransfer(from, to, End::kReceiver, step.serial));
    return both ? latest : -1;
  }
  // A broadcast's leaves need its root, and a reduce's root its leaves; both wait for nobody else.
  const bool rooted = task.op == NcclOp::kBroadcast || task.op == NcclOp::kReduce;
  const bool all = !rooted || (task.op == NcclOp::kReduce && self == task.peer);
  for (int r = 0; r < world_->ranks(); ++r) {
    const bool needed = all || r == self || (task.op == NcclOp::kBroadcast && r == task.peer);
    if (needed && !need(world_->StartOf(step.serial, r))) return -1;
  }
  return latest;
}

bool Communicator::Resolve(Running& running) {
  int64_t now = -1;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (running.start_ns < 0 || running.end_ns >= 0) return false;
    now = running.start_ns;
  }
  const bool transfers = IsTransfer(running.steps.front().task.op);
  int64_t end = now;
  for (const Step& step : running.steps) {
    const int64_t there = NeededStart(step);
    if (there < 0) return false;
    // Transfers of one kernel run beside each other, collectives one behind the other.
    const int64_t begin = transfers ? there : std::max(end, there);
    end = std::max(end, begin + TransferNs(step.task));
  }
  running.end_ns = end;
  gpu_.timeline().SetEnd(running.item, end);
  return true;
}

bool Communicator::MoveData(Running& running) {
  bool moved = false;
  for (Step& step : running.steps) {
    if (step.data_done) continue;
    if (IsTransfer(step.task.op)) {
      moved = MoveMail(step) || moved;
      continue;
    }
    Exchange(step.task);
    step.data_done = moved = true;
  }
  return moved;
}

// One piece at a time; a pair's transfers use one place, in order.
bool Communicator::MoveMail(Step& step) {
  const NcclTask& task = step.task;
  const size_t bytes = task.count * ElementBytes(task.type);
  const int self = world_->rank();
  const bool sends = task.op == NcclOp::kSend;
  SharedWorld::Mail& mail = sends ? world_->mail(self, task.peer) : world_->mail(task.peer, self);
  bool moved = false;
  while (step.moved < bytes && (mail.full.load(std::memory_order_acquire) != 0) != sends) {
    if (sends) {
      mail.bytes = static_cast<uint32_t>(std::min(bytes - step.moved, SharedWorld::kMailBytes));
      std::memcpy(mail.data, static_cast<const uint8_t*>(task.send) + step.moved, mail.bytes);
      step.moved += mail.bytes;
      mail.full.store(1, std::memory_order_release);
    } else {
      const size_t n = std::min<size_t>(mail.bytes, bytes - step.moved);
      std::memcpy(static_cast<uint8_t*>(task.receive) + step.moved, mail.data, n);
      step.moved += n;
      mail.full.store(0, std::memory_order_release);
    }
    world_->TellNews();
    moved = true;
  }
  if (step.moved >= bytes) step.data_done = moved = true;
  return moved;
}

// Every rank lays its part into its window, and takes what it needs out of all.
void Communicator::Exchange(const NcclTask& task) {
  const auto n = static_cast<size_t>(world_->ranks()), self = static_cast<size_t>(world_->rank());
  const auto root = static_cast<size_t>(task.peer);
  const size_t element = ElementBytes(task.type);
  const bool scatters = task.op == NcclOp::kReduceScatter;
  // Elements of each round; a reduce-scatter's window holds a part for every rank.
  const size_t most = SharedWorld::kWindowBytes / element / (scatters ? n : 1);
  const auto* send = static_cast<const uint8_t*>(task.send);
  auto* receive = static_cast<uint8_t*>(task.receive);
  for (size_t done = 0; done < task.count; done += most) {
    const size_t count = std::min(most, task.count - done), bytes = count * element, at = done * element;
    uint8_t* const mine = world_->window(static_cast<int>(self));
    if (scatters) {
      for (size_t d = 0; d < n; ++d)
        std::memcpy(mine + d * bytes, send + d * task.count * element + at, bytes);
    } else if (task.op != NcclOp::kBroadcast || self == root) {
      std::memcpy(mine, send + at, bytes);
    }
    if (!world_->Barrier(stop_)) return;
    std::vector<const void*> windows;
    for (size_t r = 0; r < n; ++r)
      windows.push_back(world_->window(static_cast<int>(r)) + (scatters ? self * bytes : 0));
    if (task.op == NcclOp::kAllGather) {
      for (size_t r = 0; r < n; ++r) std::memcpy(receive + r * task.count * element + at, windows[r], bytes);
    } else if (task.op == NcclOp::kBroadcast) {
      std::memcpy(receive + at, windows[root], bytes);
    } else if (task.op != NcclOp::kReduce || self == root) {
      ReduceInto(receive + at, windows, count, task.type, task.reduction);
    }
    if (!world_->Barrier(stop_)) return;
  }
}

// Seen by the proxy thread once the kernel is on its way: each channel's times as the device's own clock has
// them, and, where ranks are on several hosts, the network's operations.
void Communicator::DeviceEvents(const Running& running) {
  const std::vector<void*>& parents = running.task_events;
  const uint32_t mask = running.mask;
  const int64_t real = RealtimeAheadNs();
  const auto timer = [&](int64_t ns) {
    return static_cast<uint64_t>((ns + real) / kGlobalTimerStepNs * kGlobalTimerStepNs);
  };
  for (void* parent : parents) {
    ProfilerEvent event;
    event.descriptor.parent = parent;
    event.descriptor.rank = profiled_.rank;
    if (mask & nccl::kEventKernelChannel) {
      event.descriptor.type = nccl::kEventKernelChannel;
      event.descriptor.detail = {};
      event.descriptor.detail.kernel_channel = {0, timer(running.start_ns)};
      void* const channel = profiler_.Start(profiled_, event);
      nccl::EventStateArgs stop{};
      stop.gpu_timer_ns = timer(running.end_ns);
      profiler_.State(channel, nccl::EventState::kKernelChannelStop, stop);
      profiler_.Stop(channel);
    }
    if (profiled_.nodes < 2 || (mask & (nccl::kEventProxyOp | nccl::kEventProxyStep)) == 0) continue;
    event.descriptor.type = nccl::kEventProxyOp;
    event.descriptor.detail = {};
    event.descriptor.detail.proxy_op = {getpid(),    0,       (world_->rank() + 1) % world_->ranks(),
                                        kProxySteps, 1 << 19, 1};
    void* const op = profiler_.Start(profiled_, event);
    profiler_.State(op, nccl::EventState::kProxyOpInProgress);
    for (int s = 0; s < kProxySteps && (mask & nccl::kEventProxyStep) != 0; ++s) {
      ProfilerEvent step;
      step.descriptor.type = nccl::kEventProxyStep;
      step.descriptor.parent = op;
      step.descriptor.rank = profiled_.rank;
      step.descriptor.detail.proxy_step.step = s;
      void* const handle = profiler_.Start(profiled_, step);
      for (const auto state :
           {nccl::EventState::kProxyStepSendGpuWait, nccl::EventState::kProxyStepSendPeerWait,
            nccl::EventState::kProxyStepSendWait})
        profiler_.State(handle, state);
      profiler_.Stop(handle);
    }
    profiler_.Stop(op);
  }
}

}  // namespace lockstep::sim
