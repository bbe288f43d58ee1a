#include "sim/rank/nccl_emulation.h"

#include <algorithm>
#include <set>
#include <string>

namespace lockstep::sim {
namespace {

namespace nccl = foreign::nccl;
using scenario::Collective;
using scenario::Needs;

// Returns NCCL's name, or null if NCCL has no single operation for it.
const char* FunctionName(Collective op) {
  switch (op) {
    case Collective::kAllReduce:
    case Collective::kBarrier:
      return "AllReduce";  // frameworks build barriers from it
    case Collective::kAllGather:
      return "AllGather";
    case Collective::kReduceScatter:
      return "ReduceScatter";
    case Collective::kAllToAll:
      return "AlltoAll";
    case Collective::kBroadcast:
      return "Broadcast";
    case Collective::kReduce:
      return "Reduce";
    case Collective::kGather:
      return "Gather";
    case Collective::kScatter:
      return "Scatter";
    case Collective::kSend:
      return "Send";
    case Collective::kReceive:
      return "Recv";
    case Collective::kSendReceive:
      return nullptr;
  }
  return nullptr;
}

size_t ElementBytes(const std::string& type) {
  if (type.find("64") != std::string::npos || type.find("Double") != std::string::npos) return 8;
  if (type.find("16") != std::string::npos || type.find("Half") != std::string::npos) return 2;
  if (type.find("Int8") != std::string::npos || type.find("Uint8") != std::string::npos ||
      type.find("Float8") != std::string::npos)
    return 1;
  return 4;
}

uint8_t Channels(const scenario::Op& op) { return static_cast<uint8_t>(std::min(op.geometry.grid[0], 255u)); }

}  // namespace

NcclEmulation::NcclEmulation(const Program& program, const nccl::Profiler* profiler)
    : program_(program), profiler_(profiler) {
  const scenario::Scenario& s = *program.scenario;
  contexts_.assign(s.groups.size(), nullptr);
  if (profiler_ == nullptr) return;
  for (size_t g = 0; g < s.groups.size(); ++g) {
    const std::vector<uint32_t>& members = s.groups[g].members;
    const auto self = std::find(members.begin(), members.end(), program.rank);
    if (self == members.end() || s.groups[g].comm == 0) continue;
    std::set<std::string> hosts;
    for (uint32_t m : members) hosts.insert(s.ranks[m].host);
    profiler_->init(&contexts_[g], s.groups[g].comm, &mask_, s.groups[g].name.c_str(),
                    static_cast<int32_t>(hosts.size()), static_cast<int32_t>(members.size()),
                    static_cast<int32_t>(self - members.begin()), nullptr);
  }
}

NcclEmulation::~NcclEmulation() {
  for (void* context : contexts_) {
    if (context != nullptr) profiler_->finalize(context);
  }
}

void NcclEmulation::Begin(uint32_t step, uint32_t op_index) {
  open_ = {};
  const scenario::Op& op = program_.ops()[op_index];
  void* const context = contexts_[op.group];
  const int32_t mask = __atomic_load_n(&mask_, __ATOMIC_RELAXED);
  if (profiler_ == nullptr || context == nullptr || mask == 0 || FunctionName(op.collective) == nullptr)
    return;
  const std::vector<uint32_t>& members = program_.scenario->groups[op.group].members;
  open_.op = &op;
  open_.index = op_index;
  open_.step = step;
  open_.mask = mask;
  open_.context = context;
  open_.rank =
      static_cast<int32_t>(std::find(members.begin(), members.end(), program_.rank) - members.begin());
  nccl::EventDetail detail{};
  detail.group_api = {false, 1};
  if (mask & (nccl::kEventGroupApi | nccl::kEventCollApi | nccl::kEventP2pApi | nccl::kEventKernelLaunch)) {
    open_.group_api = Start(nccl::kEventGroupApi, nullptr, detail);
    State(open_.group_api, nccl::EventState::kGroupStartApiStop);
  }
  ApiEvents();
  State(open_.group_api, nccl::EventState::kGroupEndApiStart);
  if (mask & nccl::kEventKernelLaunch) {
    detail = {};
    detail.kernel_launch.stream = reinterpret_cast<void*>(uintptr_t{op.stream} + 1);
    open_.launch = Start(nccl::kEventKernelLaunch, open_.group_api, detail);
  }
}

void NcclEmulation::ApiEvents() {
  const scenario::Op& op = *open_.op;
  void* const stream = reinterpret_cast<void*>(uintptr_t{op.stream} + 1);
  nccl::EventDetail detail{};
  if (scenario::NeedsOf(op.collective) != Needs::kPeer) {
    detail.coll_api = {FunctionName(op.collective),
                       op.bytes / ElementBytes(op.datatype),
                       op.datatype.c_str(),
                       std::max(op.peer, 0),
                       stream,
                       false};
    ApiEvent(nccl::kEventCollApi, detail);
    return;
  }
  for (const scenario::Message& message : scenario::MessagesOf(op)) {
    detail.p2p_api = {FunctionName(message.collective), message.bytes / ElementBytes(op.datatype),
                      op.datatype.c_str(), stream, false};
    ApiEvent(nccl::kEventP2pApi, detail);
  }
}

void NcclEmulation::ApiEvent(uint32_t type, const nccl::EventDetail& detail) {
  void* api = nullptr;
  if (open_.mask & static_cast<int32_t>(type)) {
    api = Start(type, open_.group_api, detail);
    Stop(api);
  }
  open_.apis.push_back(api);
}

void NcclEmulation::End() {
  if (open_.op == nullptr) return;
  Stop(open_.launch);
  TaskEvents();
  Stop(open_.group_api);
  open_ = {};
}

// Emits the group's event and the operations' events, which NCCL emits after the launch.
void NcclEmulation::TaskEvents() {
  const scenario::Op& op = *open_.op;
  if (!(open_.mask & static_cast<int32_t>(nccl::kEventGroup | nccl::kEventColl | nccl::kEventP2p))) return;
  void* const group = Start(nccl::kEventGroup, nullptr, {});
  const std::vector<scenario::Message> messages = scenario::MessagesOf(op);
  for (size_t i = 0; i < messages.size() && (open_.mask & nccl::kEventP2p); ++i) {
    const scenario::Message& message = messages[i];
    nccl::EventDetail detail{};
    detail.p2p = {FunctionName(message.collective),
                  nullptr,
                  op.datatype.c_str(),
                  message.bytes / ElementBytes(op.datatype),
                  message.peer,
                  Channels(op),
                  group};
    Stop(Start(nccl::kEventP2p, open_.apis[i], detail));
  }
  if (messages.empty() && (open_.mask & nccl::kEventColl)) CollectiveTaskEvent(group);
  Stop(group);
}

void NcclEmulation::CollectiveTaskEvent(void* group) {
  const scenario::Op& op = *open_.op;
  const CollectivePlace& place = program_.Place(open_.index, 0);
  // NCCL itself counts these two in bytes.
  const bool in_bytes = op.collective == Collective::kAllGather || op.collective == Collective::kBroadcast;
  nccl::EventDetail detail{};
  detail.coll = {uint64_t{open_.step} * place.sequence_step + place.sequence,
                 FunctionName(op.collective),
                 nullptr,
                 nullptr,
                 static_cast<size_t>(in_bytes ? op.bytes : op.bytes / ElementBytes(op.datatype)),
                 std::max(op.peer, 0),
                 in_bytes ? "ncclInt8" : op.datatype.c_str(),
                 Channels(op),
                 16,
                 "RING",
                 op.bytes > 64 * 1024 ? "SIMPLE" : "LL",
                 group};
  Stop(Start(nccl::kEventColl, open_.apis[0], detail));
}

void* NcclEmulation::Start(uint32_t type, void* parent, const nccl::EventDetail& detail) {
  nccl::EventDescriptor descriptor{type, parent, open_.rank, detail};
  void* handle = nullptr;
  profiler_->start_event(open_.context, &handle, &descriptor);
  return handle;
}

void NcclEmulation::Stop(void* handle) {
  if (handle != nullptr) profiler_->stop_event(handle);
}

void NcclEmulation::State(void* handle, nccl::EventState state) {
  nccl::EventStateArgs args{};
  if (handle != nullptr) profiler_->record_event_state(handle, state, &args);
}

}  // namespace lockstep::sim
