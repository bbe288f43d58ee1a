#include "sim/nccl/progress.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "sim/nccl/reduction.h"

namespace lockstep::sim {
namespace {

namespace nccl = foreign::nccl;

constexpr int64_t kLatencyNs = 8'000;       // the shortest collective's duration
constexpr int64_t kGlobalTimerStepNs = 32;  // resolution of the device's clock
constexpr uint32_t kDeviceMask = nccl::kEventKernelChannel | nccl::kEventProxyOp | nccl::kEventProxyStep;

// Returns the time on the device's clock.
uint64_t GlobalTimer(int64_t ns) {
  return static_cast<uint64_t>((ns + RealtimeAheadNs()) / kGlobalTimerStepNs * kGlobalTimerStepNs);
}

}  // namespace

// Called on the timeline's thread.
class Progress::KernelCompletion final : public ExternalCompletion {
 public:
  KernelCompletion(Progress& progress, std::shared_ptr<NcclKernel> kernel)
      : progress_(progress), kernel_(std::move(kernel)) {}
  void Entered(const ItemRef& item, int64_t start_ns) override;
  void Begin(const ItemRef& item) override;

 private:
  Progress& progress_;
  const std::shared_ptr<NcclKernel> kernel_;
};

void Progress::KernelCompletion::Entered(const ItemRef& item, int64_t start_ns) {
  {
    MutexLock lock(&progress_.mutex_);
    kernel_->item = item;
    kernel_->start_ns = start_ns;
  }
  const int self = progress_.world_.rank();
  for (const NcclStep& step : kernel_->steps) {
    const NcclTask& task = step.task;
    if (task.op == NcclOp::kSend)
      progress_.world_.PublishTransfer(self, task.peer, SharedWorld::End::kSender, step.serial, start_ns);
    else if (task.op == NcclOp::kRecv)
      progress_.world_.PublishTransfer(task.peer, self, SharedWorld::End::kReceiver, step.serial, start_ns);
    else
      progress_.world_.Publish(step.serial, start_ns);
  }
}

void Progress::KernelCompletion::Begin(const ItemRef&) {
  {
    MutexLock lock(&progress_.mutex_);
    kernel_->begun = true;
  }
  progress_.world_.NotifyChange();
}

std::shared_ptr<ExternalCompletion> Progress::MakeRemote(std::shared_ptr<NcclKernel> kernel) {
  return std::make_shared<KernelCompletion>(*this, std::move(kernel));
}

void Progress::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Progress::Abort() {
  stop_.store(true);
  world_.NotifyChange();
  if (thread_.joinable()) thread_.join();
}

void Progress::Add(const std::shared_ptr<NcclKernel>& kernel) {
  MutexLock lock(&mutex_);
  kernels_.push_back(kernel);
  unreported_.fetch_add(1);
}

void Progress::SetTaskEvents(NcclKernel& kernel, std::vector<void*> events) {
  {
    MutexLock lock(&mutex_);
    kernel.task_events = std::move(events);
    kernel.has_task_events = true;
  }
  world_.NotifyChange();
}

void Progress::WaitForReports() {
  // The last reports come once the clock is past the end of what they describe.
  while (unreported_.load() != 0 && !stop_.load()) world_.WaitForChange(world_.change_count());
}

void Progress::Run() {
  prctl(PR_SET_NAME, "NCCL Progress");
  while (!stop_.load()) {
    const uint32_t seen = world_.change_count();
    std::vector<std::shared_ptr<NcclKernel>> open;
    {
      MutexLock lock(&mutex_);
      open.assign(kernels_.begin(), kernels_.end());
    }
    bool moved = false;
    for (const auto& kernel : open) moved = Resolve(*kernel) || moved;
    for (const auto& kernel : open) ReportStart(*kernel);
    // Data is moved in the order of the launches.
    for (const auto& kernel : open) {
      if (!ReadyForData(*kernel)) break;
      moved = MoveData(*kernel) || moved;
      if (!std::all_of(kernel->steps.begin(), kernel->steps.end(),
                       [](const NcclStep& s) { return s.data_done; }))
        break;
      {
        MutexLock lock(&mutex_);
        kernels_.remove(kernel);
      }
      gpu_.timeline().SetDone(kernel->item);
      if (kernel->mask & kDeviceMask)
        reporting_.push_back(kernel);
      else
        unreported_.fetch_sub(1);
      moved = true;
    }
    const int64_t now = MonotonicNs();
    std::erase_if(reporting_, [&](const std::shared_ptr<NcclKernel>& kernel) {
      if (kernel->end_ns > now) return false;
      DeviceEvents(*kernel);
      unreported_.fetch_sub(1);
      return true;
    });
    if (!moved) world_.WaitForChange(seen);
  }
}

bool Progress::ReadyForData(const NcclKernel& kernel) {
  MutexLock lock(&mutex_);
  return kernel.begun && kernel.end_ns >= 0 && kernel.has_task_events;
}

// Returns the latest start among the ranks whose data this rank needs, or -1 if one is not known yet.
int64_t Progress::NeededStart(const NcclStep& step) const {
  const NcclTask& task = step.task;
  const int self = world_.rank();
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
    const bool both = need(world_.StartOfTransfer(from, to, End::kSender, step.serial)) &&
                      need(world_.StartOfTransfer(from, to, End::kReceiver, step.serial));
    return both ? latest : -1;
  }
  // In a broadcast the other ranks need the root, and in a reduce the root needs the others. No other waiting
  // occurs.
  const bool rooted = task.op == NcclOp::kBroadcast || task.op == NcclOp::kReduce;
  const bool all = !rooted || (task.op == NcclOp::kReduce && self == task.peer);
  for (int r = 0; r < world_.ranks(); ++r) {
    const bool needed = all || r == self || (task.op == NcclOp::kBroadcast && r == task.peer);
    if (needed && !need(world_.StartOf(step.serial, r))) return -1;
  }
  return latest;
}

int64_t Progress::TransferNs(const NcclTask& task) const {
  const auto n = static_cast<double>(world_.ranks());
  double bytes = static_cast<double>(BytesOf(task));
  if (task.op == NcclOp::kAllReduce) bytes *= 2 * (n - 1) / n;
  if (task.op == NcclOp::kAllGather || task.op == NcclOp::kReduceScatter) bytes *= n - 1;
  return kLatencyNs + static_cast<int64_t>(bytes / gpu_.settings().link_gbps);
}

bool Progress::Resolve(NcclKernel& kernel) {
  int64_t now = -1;
  {
    MutexLock lock(&mutex_);
    if (kernel.start_ns < 0 || kernel.end_ns >= 0) return false;
    now = kernel.start_ns;
  }
  if (proxies_.IsCut(kernel)) return false;
  const bool transfers = IsTransfer(kernel.steps.front().task.op);
  int64_t end = now;
  for (const NcclStep& step : kernel.steps) {
    const int64_t there = NeededStart(step);
    if (there < 0) return false;
    // Transfers of one kernel run in parallel, collectives one after the other.
    const int64_t begin = transfers ? there : std::max(end, there);
    end = std::max(end, begin + TransferNs(step.task));
  }
  kernel.end_ns = end;
  gpu_.timeline().SetEnd(kernel.item, end);
  return true;
}

bool Progress::MoveData(NcclKernel& kernel) {
  bool moved = false;
  for (NcclStep& step : kernel.steps) {
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

// Moves one piece at a time. All transfers of a pair use the same mailbox, in order.
bool Progress::MoveMail(NcclStep& step) {
  const NcclTask& task = step.task;
  const size_t bytes = BytesOf(task);
  const int self = world_.rank();
  const bool sends = task.op == NcclOp::kSend;
  SharedWorld::Mail& mail = sends ? world_.mail(self, task.peer) : world_.mail(task.peer, self);
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
    world_.NotifyChange();
    moved = true;
  }
  if (step.moved >= bytes) step.data_done = moved = true;
  return moved;
}

// Every rank copies its part into its own window and reads the data that it needs from all windows.
void Progress::Exchange(const NcclTask& task) {
  const auto n = static_cast<size_t>(world_.ranks()), self = static_cast<size_t>(world_.rank());
  const auto root = static_cast<size_t>(task.peer);
  const size_t element = ElementBytes(task.type);
  const bool scatters = task.op == NcclOp::kReduceScatter;
  // Elements per round. A reduce-scatter's window holds a part for every rank.
  const size_t most = SharedWorld::kWindowBytes / element / (scatters ? n : 1);
  const auto* send = static_cast<const uint8_t*>(task.send);
  auto* receive = static_cast<uint8_t*>(task.receive);
  for (size_t done = 0; done < task.count; done += most) {
    const size_t count = std::min(most, task.count - done), bytes = count * element, at = done * element;
    uint8_t* const mine = world_.window(static_cast<int>(self));
    if (scatters) {
      for (size_t d = 0; d < n; ++d)
        std::memcpy(mine + d * bytes, send + d * task.count * element + at, bytes);
    } else if (task.op != NcclOp::kBroadcast || self == root) {
      std::memcpy(mine, send + at, bytes);
    }
    if (!world_.Barrier(stop_)) return;
    std::vector<const void*> windows;
    for (size_t r = 0; r < n; ++r)
      windows.push_back(world_.window(static_cast<int>(r)) + (scatters ? self * bytes : 0));
    if (task.op == NcclOp::kAllGather) {
      for (size_t r = 0; r < n; ++r) std::memcpy(receive + r * task.count * element + at, windows[r], bytes);
    } else if (task.op == NcclOp::kBroadcast) {
      std::memcpy(receive + at, windows[root], bytes);
    } else if (task.op != NcclOp::kReduce || self == root) {
      ReduceInto(receive + at, windows, count, task.type, task.reduction);
    }
    if (!world_.Barrier(stop_)) return;
  }
}

// The proxy thread sees a channel's start before its end, so a kernel that never ends has a start.
void Progress::ReportStart(NcclKernel& kernel) {
  if ((kernel.mask & kDeviceMask) == 0 || kernel.start_reported) return;
  int64_t start_ns = 0;
  {
    MutexLock lock(&mutex_);
    if (!kernel.has_task_events || kernel.start_ns < 0 || kernel.start_ns > MonotonicNs()) return;
    start_ns = kernel.start_ns;
  }
  kernel.start_reported = true;
  proxies_.ReportStart(kernel);
  if ((kernel.mask & nccl::kEventKernelChannel) == 0) return;
  for (void* parent : kernel.task_events) {
    ProfilerEvent event;
    event.descriptor.parent = parent;
    event.descriptor.rank = profiled_.rank;
    event.descriptor.type = nccl::kEventKernelChannel;
    event.descriptor.detail = {};
    event.descriptor.detail.kernel_channel = {0, GlobalTimer(start_ns)};
    kernel.channel_events.push_back(profiler_.Start(profiled_, event));
  }
}

// Emits the remaining events of a kernel that has ended: each channel's end on the device's clock, and the
// ends of the network's operations.
void Progress::DeviceEvents(NcclKernel& kernel) {
  ReportStart(kernel);
  for (size_t i = 0; i < kernel.task_events.size(); ++i) {
    if (i < kernel.channel_events.size()) {
      nccl::EventStateArgs stop{};
      stop.gpu_timer_ns = GlobalTimer(kernel.end_ns);
      profiler_.State(kernel.channel_events[i], nccl::EventState::kKernelChannelStop, stop);
      profiler_.Stop(kernel.channel_events[i]);
    }
  }
  proxies_.ReportEnd(kernel);
}

}  // namespace lockstep::sim
