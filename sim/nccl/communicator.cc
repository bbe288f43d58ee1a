#include "sim/nccl/communicator.h"

#include <algorithm>
#include <set>

#include "sim/nccl/reduction.h"

namespace lockstep::sim {
namespace {

namespace nccl = foreign::nccl;
namespace cupti = foreign::cupti;

constexpr uint8_t kWarps = 16;
constexpr size_t kSimpleFrom = 64 * 1024;  // smaller operations use the LL protocol

const char* ProtocolOf(size_t bytes) { return bytes >= kSimpleFrom ? "SIMPLE" : "LL"; }

// Keeps the name for the process's life, because a tool may read CUPTI's records after the communicator is
// gone.
const char* InternedName(const std::string& name) {
  static Mutex mutex;
  static std::set<std::string>* const kept = new std::set<std::string>;
  MutexLock lock(&mutex);
  return kept->insert(name).first->c_str();
}

uint8_t ChannelsOf(size_t bytes) { return static_cast<uint8_t>(std::clamp<size_t>(bytes >> 18, 1, 24)); }

}  // namespace

Communicator::Communicator(Gpu& gpu, Profiler& profiler, std::unique_ptr<SharedWorld> world, uint64_t id,
                           std::string name, int device)
    : gpu_(gpu),
      profiler_(profiler),
      world_(std::move(world)),
      device_(device),
      progress_(gpu, profiler, *world_, profiled_) {
  std::set<uint64_t> hosts;
  for (int r = 0; r < world_->ranks(); ++r) hosts.insert(world_->member(r).host);
  profiled_.id = id;
  profiled_.name = std::move(name);
  profiled_.nodes = static_cast<int32_t>(hosts.size());
  profiled_.ranks = world_->ranks();
  profiled_.rank = world_->rank();
  profiler_.Init(&profiled_);
  progress_.Start();
}

Communicator::~Communicator() {
  Abort();
  profiler_.Finalize(&profiled_);
}

// NCCL has one kernel for a family of operations: its name leaves out signedness and the actual operation.
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
  const char* const name = InternedName(KernelName(plan));
  std::shared_ptr<NcclKernel> direct;
  {
    // NCCL calls the driver directly, so that no runtime call is recorded.
    ApiCall call(gpu_.activity(), cupti::CallbackDomain::kDriverApi, cupti::driver_cbid::kLaunchKernelEx,
                 "cuLaunchKernelEx", name);
    Work work;
    auto& record = work.Make<cupti::Kernel10>(cupti::ActivityKind::kConcurrentKernel);
    record.name = name;
    record.grid_x = ChannelsOf(bytes);
    record.grid_y = record.grid_z = record.block_y = record.block_z = 1;
    record.block_x = kWarps * 32;
    record.registers_per_thread = 96;
    work.make_external = [this, plan, &direct](sim::Launch launch) -> std::shared_ptr<ExternalCompletion> {
      std::shared_ptr<NcclKernel> kernel = Begin(plan, launch);
      if (launch == sim::Launch::kDirect) direct = kernel;
      return progress_.MakeRemote(kernel);
    };
    if (captured) {
      work.make_external = [this, plan](sim::Launch launch) -> std::shared_ptr<ExternalCompletion> {
        std::shared_ptr<NcclKernel> kernel = Begin(plan, launch);
        // A captured plan's events come from the driver's host-callback thread, with the event mask of the
        // capture.
        gpu_.host_callbacks().Run([this, kernel] { TaskEvents(*kernel); });
        return progress_.MakeRemote(kernel);
      };
    }
    gpu_.Submit(stream, std::move(work), call.correlation());
  }
  profiler_.Stop(launch_event);
  if (direct != nullptr) TaskEvents(*direct);
}

std::shared_ptr<NcclKernel> Communicator::Begin(const NcclPlan& plan, sim::Launch launch) {
  auto kernel = std::make_shared<NcclKernel>();
  kernel->mask = plan.mask;
  MutexLock lock(&mutex_);
  for (const NcclTask& task : plan.tasks) {
    NcclStep step;
    step.task = task;
    if (IsTransfer(task.op)) {
      step.serial = transfers_[{task.peer, task.op == NcclOp::kSend}]++;
    } else {
      step.serial = next_collective_++;
      // The sequence number does not count launches from graphs. Before NCCL 2.26 it also did not count
      // operations without an event.
      const bool counted = profiler_.version() >= 3 || (plan.mask & kMaskOfColl) != 0;
      if (launch == sim::Launch::kDirect && counted) step.sequence = sequences_[task.op]++;
    }
    kernel->steps.push_back(step);
  }
  progress_.Add(kernel);
  return kernel;
}

// The group's event and those of its operations begin behind the launch, and end once the kernel is enqueued.
void Communicator::TaskEvents(NcclKernel& kernel) { progress_.SetTaskEvents(kernel, MakeTaskEvents(kernel)); }

std::vector<void*> Communicator::MakeTaskEvents(const NcclKernel& kernel) {
  if ((kernel.mask & kMaskOfGroup) == 0) return {};
  ProfilerEvent group;
  group.descriptor.type = nccl::kEventGroup;
  group.descriptor.rank = profiled_.rank;
  void* const group_event = profiler_.Start(profiled_, group);
  std::vector<void*> events;
  for (const NcclStep& step : kernel.steps) {
    const NcclTask& task = step.task;
    const size_t bytes = BytesOf(task);
    const bool transfer = IsTransfer(task.op);
    if ((kernel.mask & (transfer ? kMaskOfP2p : kMaskOfColl)) == 0) continue;
    ProfilerEvent event;
    event.datatype = task.type;
    event.reduction = task.reduction;
    event.traffic_bytes = bytes;
    event.descriptor.type = transfer ? nccl::kEventP2p : nccl::kEventColl;
    event.descriptor.rank = profiled_.rank;
    // From v5 on, the parent is the call's event, and the group's event is a field.
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
  progress_.WaitForReports();
}

}  // namespace lockstep::sim
