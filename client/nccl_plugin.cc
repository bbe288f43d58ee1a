#include "client/nccl_plugin.h"

namespace lockstep::client {
namespace {

namespace nccl = foreign::nccl;

// NCCL's table carries no user data.
NcclSource* g_source = nullptr;
void (*g_came_up)() = nullptr;

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

nccl::Result StartEvent(void* context, void** handle, nccl::EventDescriptor* event) {
  *handle = g_source->OnStart(static_cast<NcclSource::Communicator*>(context), event->type, *event);
  return nccl::Result::kSuccess;
}

nccl::Result StartEventV4(void* context, void** handle, nccl::EventDescriptorV4* event) {
  // Same offsets; only the type is one byte wide, and the bytes behind it are anything.
  const auto& same = *reinterpret_cast<const nccl::EventDescriptor*>(event);
  *handle = g_source->OnStart(static_cast<NcclSource::Communicator*>(context), event->type, same);
  return nccl::Result::kSuccess;
}

nccl::Result StopEvent(void* handle) {
  g_source->OnStop(handle);
  return nccl::Result::kSuccess;
}

nccl::Result RecordEventState(void*, nccl::EventState, nccl::EventStateArgs*) {
  return nccl::Result::kSuccess;
}

nccl::Result Finalize(void* context) {
  g_source->OnFinalize(static_cast<NcclSource::Communicator*>(context));
  return nccl::Result::kSuccess;
}

}  // namespace

void SetNcclSource(NcclSource& source, void (*came_up)()) {
  g_source = &source;
  g_came_up = came_up;
}

}  // namespace lockstep::client

#define LOCKSTEP_PROFILER extern "C" __attribute__((visibility("default"))) constinit const

namespace client = lockstep::client;
LOCKSTEP_PROFILER lockstep::foreign::nccl::ProfilerV4 ncclProfiler_v4 = {
    "lockstep",        client::InitV4,           client::StartEventV4,
    client::StopEvent, client::RecordEventState, client::Finalize};
LOCKSTEP_PROFILER lockstep::foreign::nccl::Profiler ncclProfiler_v5 = {
    "lockstep",      client::Init, client::StartEvent, client::StopEvent, client::RecordEventState,
    client::Finalize};
LOCKSTEP_PROFILER lockstep::foreign::nccl::Profiler ncclProfiler_v6 = {
    "lockstep",      client::Init, client::StartEvent, client::StopEvent, client::RecordEventState,
    client::Finalize};
