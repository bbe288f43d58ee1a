#include "client/nccl_plugin.h"

namespace lockstep::client {
namespace {

namespace nccl = foreign::nccl;

// NCCL's table carries no user data.
NcclSource* g_source = nullptr;
void (*g_came_up)() = nullptr;

NcclSource::Communicator* Ours(void* context) { return static_cast<NcclSource::Communicator*>(context); }

nccl::Result Init(void** context, uint64_t comm_id, int32_t* mask, const char* comm_name, int32_t nodes,
                  int32_t ranks, int32_t rank, nccl::Logger) {
  if (g_came_up != nullptr) g_came_up();
  *context = g_source->OnInit(comm_id, mask, comm_name, nodes, ranks, rank);
  return nccl::Result::kSuccess;
}

nccl::Result InitV4(void** context, int32_t* mask, const char* comm_name, uint64_t comm_id, int32_t nodes,
                    int32_t ranks, int32_t rank, nccl::Logger logger) {
  return Init(context, comm_id, mask, comm_name, nodes, ranks, rank, logger);
}

nccl::Result InitOld(void** context, int32_t* mask) {
  if (g_came_up != nullptr) g_came_up();
  *context = g_source->OnInitUnnamed(mask);
  return nccl::Result::kSuccess;
}

template <typename Descriptor>
nccl::Result StartEvent(void* context, void** handle, Descriptor* event) {
  *handle = g_source->OnStart(Ours(context), EventOf(*event));
  return nccl::Result::kSuccess;
}

nccl::Result StopEvent(void* handle) {
  g_source->OnStop(handle);
  return nccl::Result::kSuccess;
}

nccl::Result RecordEventState(void* handle, nccl::EventState state, nccl::EventStateArgs* args) {
  const bool timer = state == nccl::EventState::kKernelChannelStop;
  const uint64_t value = args == nullptr ? 0 : args->gpu_timer_ns;
  g_source->OnState(handle, static_cast<uint32_t>(state), timer ? 0 : value, timer ? value : 0);
  return nccl::Result::kSuccess;
}

nccl::Result RecordEventStateOld(void* handle, nccl::EventState state, nccl::EventStateArgsOld* args) {
  g_source->OnState(handle, static_cast<uint32_t>(state), args == nullptr ? 0 : args->transferred_bytes, 0);
  return nccl::Result::kSuccess;
}

nccl::Result Finalize(void* context) {
  g_source->OnFinalize(Ours(context));
  return nccl::Result::kSuccess;
}

template <typename Descriptor>
constexpr nccl::ProfilerOld<Descriptor> kOldTable = {
    "lockstep", InitOld, StartEvent<Descriptor>, StopEvent, RecordEventStateOld, Finalize};
constexpr nccl::Profiler kTable = {"lockstep",       Init,     StartEvent<nccl::EventDescriptor>, StopEvent,
                                   RecordEventState, Finalize};

}  // namespace

void SetNcclSource(NcclSource& source, void (*came_up)()) {
  g_source = &source;
  g_came_up = came_up;
}

}  // namespace lockstep::client

#define LOCKSTEP_PROFILER extern "C" __attribute__((visibility("default"))) constinit const

namespace client = lockstep::client;
namespace nccl = lockstep::foreign::nccl;
LOCKSTEP_PROFILER nccl::ProfilerV1 ncclProfiler_v1 = client::kOldTable<nccl::EventDescriptorV1>;
LOCKSTEP_PROFILER nccl::ProfilerV2 ncclProfiler_v2 = client::kOldTable<nccl::EventDescriptorV2>;
LOCKSTEP_PROFILER nccl::ProfilerV3 ncclProfiler_v3 = client::kOldTable<nccl::EventDescriptorV3>;
LOCKSTEP_PROFILER nccl::ProfilerV4 ncclProfiler_v4 = {
    "lockstep",        client::InitV4,           client::StartEvent<nccl::EventDescriptorV4>,
    client::StopEvent, client::RecordEventState, client::Finalize};
LOCKSTEP_PROFILER nccl::Profiler ncclProfiler_v5 = client::kTable;
LOCKSTEP_PROFILER nccl::Profiler ncclProfiler_v6 = client::kTable;
