#include "sim/nccl/communicator.h"

#include <algorithm>
#include <set>

#include "sim/nccl/reduction.h"
#include "sim/nccl/running.h"

namespace lockstep::sim {
namespace {

namespace nccl = foreign::nccl;
namespace cupti = foreign::cupti;

constexpr int64_t kLatencyNs = 8'000;  // of the shortest collective
constexpr uint8_t kWarps = 16;
constexpr size_t kSimpleFrom = 64 * 1024;  // smaller ones use the LL protocol

const char* ProtocolOf(size_t bytes) { return bytes >= kSimpleFrom ? "SIMPLE" : "LL"; }

size_t BytesOf(const NcclTask& task) { return task.count * ElementBytes(task.type); }

// CUPTI's records point to names, and may be read after the communicator is gone.
const char* KeptName(const std::string& name) {
  static std::mutex mutex;
  static std::set<std::string>* const kept = new std::set<std::string>;
  std::lock_guard<std::mutex> lock(mutex);
  return kept->insert(name).first->c_str();
}

uint8_t ChannelsOf(size_t bytes) { return static_cast<uint8_t>(std::clamp<size_t>(bytes >> 18, 1, 24)); }

}  // namespace

const char* FunctionName(NcclOp op) {
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

Communicator::Communicator(Gpu& gpu, Profiler& profiler, std::unique_ptr<SharedWorld> world, uint64_t id,
                           std::string name, int device)
    : gpu_(gpu), profiler_(profiler), world_(std::move(world)), device_(device) {
  std::set<uint64_t> hosts;
  for (int r = 0; r < world_->ranks(); ++r) hosts.insert(world_->member(r).host);
  profiled_.id = id;
  profiled_.name = std::move(name);
  profiled_.nodes = static_cast<int32_t>(hosts.size());
  profiled_.ranks = world_->ranks();
  profiled_.rank = world_->rank();
  profiler_.Init(&profiled_);
  thread_ = std::thread([this] { Run(); });
}

void Communicator::Abort() {
  stop_.store(true);
  world_->TellNews();
  if (thread_.joinable()) thread_.join();
}

Communicator::~Communicator() {
  Abort();
  profiler_.Finalize(&profiled_);
}

int64_t Communicator::TransferNs(const NcclTask& task) const {
  const auto n = static_cast<double>(world_->ranks());
  double bytes = static_cast<double>(BytesOf(task));
  if (task.op == NcclOp::kAllReduce) bytes *= 2 * (n - 1) / n;
  if (task.op == NcclOp::kAllGather || task.op == NcclOp::kReduceScatter) bytes *= n - 1;
  return kLatencyNs + static_cast<int64_t>(bytes / gpu_.knobs().link_gbps);
}

// NCCL has one kernel for a family: signs and operations are not in the name.
std::string Communicator::KernelName(const NcclPlan& plan) const {
  constexpr char kArguments[] = "(ncclDevKernelArgsStorage<4096ul>)";
  const NcclTask& task = plan.tasks.front();
  if (IsTransfer(task.op)) return std::string("ncclDevKernel_SendRecv") + kArguments;
  std::string name = std::string("ncclDevKernel_") + FunctionName(task.op);
  if (task.op == NcclOp::kAllReduce || task.op == NcclOp::kReduce || task.op == NcclOp::kReduceScatter)
    name += std::string("_Sum_") + TypeNameInKernels(task.type);
  return name + "_RING_LL" + kArguments;
}

void Communicator::Launch(NcclPlan plan, Stream& stream, void* group_event) {
  const bool captured = gpu_.Capturing(stream);
  size_t bytes = 0;
  for (const NcclTask& task : plan.tasks) bytes += BytesOf(task);
  ProfilerEvent event;
  void* launch_event = nullptr;
  if (plan.mask & nccl::kEventKernelLaunch) {
    event.descriptor.type = nccl::kEventKernelLaunch;
    event.descriptor.parent = group_event;
    event.descriptor.rank = profiled_.rank;
    event.descriptor.detail.kernel_launch.stream = &stream;
    launch_event = profiler_.Start(profiled_, event);
  }
  const char* const name = KeptName(KernelName(plan));
  std::shared_ptr<Running> direct;
  {
    // NCCL goes straight to the driver: no runtime call is seen.
    ApiCall call(gpu_.activity(), cupti::CallbackDomain::kDriverApi, cupti::driver_cbid::kLaunchKernelEx,
                 "cuLaunchKernelEx", name);
    Work work;
    auto& record = work.Make<cupti::Kernel10>(cupti::ActivityKind::kConcurrentKernel);
    record.name = name;
    record.grid_x = ChannelsOf(bytes);
    record.grid_y = record.grid_z = record.block_y = record.block_z = 1;
    record.block_x = kWarps * 32;
    record.registers_per_thread = 96;
    work.make_remote = [this, plan, &direct](sim::Launch launch) -> std::shared_ptr<Remote> {
      std::shared_ptr<Running> running = Begin(plan, launch);
      if (launch == sim::Launch::kDirect) direct = running;
      return std::make_shared<KernelRemote>(*this, running);
    };
    if (captured) {
      work.make_remote = [this, plan](sim::Launch launch) -> std::shared_ptr<Remote> {
        std::shared_ptr<Running> running = Begin(plan, launch);
        // A captured plan's events come from the driver's host-callback thread, with the mask of the capture.
        gpu_.host_callbacks().Run([this, running] { TaskEvents(*running); });
        return std::make_shared<KernelRemote>(*this, running);
      };
    }
    gpu_.Submit(stream, std::move(work), call.correlation());
  }
  profiler_.Stop(launch_event);
  if (direct != nullptr) TaskEvents(*direct);
}

std::shared_ptr<Communicator::Running> Communicator::Begin(const NcclPlan& plan, sim::Launch launch) {
  auto running = std::make_shared<Running>();
  running->mask = plan.mask;
  running->launch = launch;
  std::lock_guard<std::mutex> lock(mutex_);
  for (const NcclTask& task : plan.tasks) {
    Step step;
    step.task = task;
    if (IsTransfer(task.op)) {
      step.serial = transfers_[{task.peer, task.op == NcclOp::kSend}]++;
    } else {
      step.serial = next_collective_++;
      // Those of graphs are not counted, and before 2.26 neither were those without an event.
      const bool counted = profiler_.version() >= 3 || (plan.mask & kMaskOfColl) != 0;
      if (launch == sim::Launch::kDirect && counted) step.sequence = sequences_[task.op]++;
    }
    running->steps.push_back(step);
  }
  running_.push_back(running);
  open_.fetch_add(1);
  return running;
}

// Group, and each operation in it: behind the launch, and over once it is enqueued.
void Communicator::TaskEvents(Running& running) {
  const std::vector<void*> events = MakeTaskEvents(running);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    running.task_events = events;
    running.events_told = true;
  }
  world_->TellNews();
}

std::vector<void*> Communicator::MakeTaskEvents(const Running& running) {
  if ((running.mask & kMaskOfGroup) == 0) return {};
  ProfilerEvent group;
  group.descriptor.type = nccl::kEventGroup;
  group.descriptor.rank = profiled_.rank;
  void* const group_event = profiler_.Start(profiled_, group);
  std::vector<void*> events;
  for (const Step& step : running.steps) {
    const NcclTask& task = step.task;
    const size_t bytes = BytesOf(task);
    const bool transfer = IsTransfer(task.op);
    if ((running.mask & (transfer ? kMaskOfP2p : kMaskOfColl)) == 0) continue;
    ProfilerEvent event;
    event.datatype = task.type;
    event.reduction = task.reduction;
    event.traffic_bytes = bytes;
    event.descriptor.type = transfer ? nccl::kEventP2p : nccl::kEventColl;
    event.descriptor.rank = profiled_.rank;
    // From v5 on the call is the parent, and the group a field.
    event.descriptor.parent = profiler_.version() >= 5 ? task.api_event : group_event;
    if (transfer) {
      event.descriptor.detail.p2p = {
          FunctionName(task.op), task.receive, TypeName(task.type), task.count, task.peer,
          ChannelsOf(bytes),     group_event};
    } else {
      // NCCL itself counts these two in bytes.
      const bool in_bytes = task.op == NcclOp::kAllGather || task.op == NcclOp::kBroadcast;
      event.descriptor.detail.coll = {step.sequence,
                                      FunctionName(task.op),
                                      task.send,
                                      task.receive,
                                      in_bytes ? bytes : task.count,
                                      task.peer,
                                      in_bytes ? "ncclInt8" : TypeName(task.type),
                                      ChannelsOf(bytes),
                                      kWarps,
                                      "RING",
                                      ProtocolOf(bytes),
                                      group_event};
    }
    events.push_back(profiler_.Start(profiled_, event));
  }
  for (void* event : events) profiler_.Stop(event);
  profiler_.Stop(group_event);
  return events;
}

void Communicator::Finish() {
  gpu_.SynchronizeAll();
  // The last reports come once the clock is past the end of what they tell of.
  while (open_.load() != 0 && !stop_.load()) world_->WaitForNews(world_->news());
}

// ---- the timeline's thread ----

void Communicator::KernelRemote::Entered(const ItemRef& item, int64_t start_ns) {
  {
    std::lock_guard<std::mutex> lock(comm_.mutex_);
    running_->item = item;
    running_->start_ns = start_ns;
  }
  const int self = comm_.rank();
  for (const Step& step : running_->steps) {
    const NcclTask& task = step.task;
    if (task.op == NcclOp::kSend)
      comm_.world_->PublishTransfer(self, task.peer, SharedWorld::End::kSender, step.serial, start_ns);
    else if (task.op == NcclOp::kRecv)
      comm_.world_->PublishTransfer(task.peer, self, SharedWorld::End::kReceiver, step.serial, start_ns);
    else
      comm_.world_->Publish(step.serial, start_ns);
  }
}

void Communicator::KernelRemote::Begin(const ItemRef&) {
  {
    std::lock_guard<std::mutex> lock(comm_.mutex_);
    running_->begun = true;
  }
  comm_.world_->TellNews();
}

}  // namespace lockstep::sim
