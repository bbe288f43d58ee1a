// Implements streams, events and graphs.
#include <memory>

#include "sim/cudart/runtime.h"
#include "sim/device/graph.h"

using namespace lockstep::foreign::cudart;
using lockstep::sim::ApiCall;
using lockstep::sim::Gpu;
using lockstep::sim::RuntimeCall;
namespace sim = lockstep::sim;
namespace cupti = lockstep::foreign::cupti;
namespace cbid = lockstep::foreign::cupti::runtime_cbid;
using cupti::SynchronizationType;

namespace {

// Makes a RuntimeCall with the stream or event that a handle refers to.
template <typename Body>
cudaError_t StreamCall(uint32_t id, const char* name, const void* handle, Body body) {
  return RuntimeCall(id, name, [&](Gpu& gpu, ApiCall& call) -> cudaError_t {
    sim::Stream* stream = gpu.Find(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : body(gpu, call, *stream);
  });
}
template <typename Body>
cudaError_t EventCall(uint32_t id, const char* name, const void* handle, Body body) {
  return RuntimeCall(id, name, [&](Gpu& gpu, ApiCall& call) -> cudaError_t {
    sim::Event* event = gpu.FindEvent(handle);
    return event == nullptr ? cudaErrorInvalidResourceHandle : body(gpu, call, *event);
  });
}

template <typename Handle>
Handle HandleOf(void* object) {
  return static_cast<Handle>(object);
}

cudaError_t NewStream(uint32_t id, const char* name, cudaStream_t* stream, unsigned flags, int priority) {
  return RuntimeCall(id, name, [&](Gpu& gpu, ApiCall&) {
    if (stream == nullptr) return cudaErrorInvalidValue;
    *stream = HandleOf<cudaStream_t>(gpu.NewStream((flags & cudaStreamNonBlocking) == 0, priority));
    return cudaSuccess;
  });
}

cudaError_t NewEvent(uint32_t id, const char* name, cudaEvent_t* event) {
  return RuntimeCall(id, name, [&](Gpu& gpu, ApiCall&) {
    if (event == nullptr) return cudaErrorInvalidValue;
    *event = HandleOf<cudaEvent_t>(gpu.NewEvent());
    return cudaSuccess;
  });
}

// A query that found unfinished work is recorded only if the tool asked for all queries.
bool RecordQuery(Gpu& gpu, bool done) {
  const sim::SimCore* core = gpu.activity().core();
  return done || (core != nullptr && core->all_sync_records());
}

}  // namespace

LOCKSTEP_SIM_EXPORT cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return NewStream(cbid::kStreamCreate, "cudaStreamCreate", stream, 0, 0);
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return NewStream(cbid::kStreamCreateWithFlags, "cudaStreamCreateWithFlags", stream, flags, 0);
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags,
                                                             int priority) {
  return NewStream(cbid::kStreamCreateWithPriority, "cudaStreamCreateWithPriority", stream, flags, priority);
}

LOCKSTEP_SIM_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return StreamCall(cbid::kStreamDestroy, "cudaStreamDestroy", handle,
                    [](Gpu& gpu, ApiCall&, sim::Stream& stream) {
                      if (stream.is_default) return cudaErrorInvalidResourceHandle;
                      gpu.Delete(&stream);
                      return cudaSuccess;
                    });
}

LOCKSTEP_SIM_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return StreamCall(cbid::kStreamSynchronize, "cudaStreamSynchronize", handle,
                    [](Gpu& gpu, ApiCall& call, sim::Stream& stream) {
                      if (gpu.Capturing(stream)) return cudaErrorStreamCaptureUnsupported;
                      sim::RecordWait(gpu, call, SynchronizationType::kStreamSynchronize, &stream, 0,
                                      [&] { gpu.Synchronize(stream); });
                      return cudaSuccess;
                    });
}

LOCKSTEP_SIM_EXPORT cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return StreamCall(
      cbid::kStreamQuery, "cudaStreamQuery", handle, [](Gpu& gpu, ApiCall& call, sim::Stream& stream) {
        const bool done = gpu.Idle(stream);
        if (RecordQuery(gpu, done))
          sim::RecordWait(gpu, call, SynchronizationType::kStreamSynchronize, &stream, 0, [] {});
        return done ? cudaSuccess : cudaErrorNotReady;
      });
}

LOCKSTEP_SIM_EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned) {
  return StreamCall(cbid::kStreamWaitEvent, "cudaStreamWaitEvent", handle,
                    [&](Gpu& gpu, ApiCall& call, sim::Stream& stream) {
                      sim::Event* event = gpu.FindEvent(event_handle);
                      if (event == nullptr) return cudaErrorInvalidResourceHandle;
                      sim::RecordWait(gpu, call, SynchronizationType::kStreamWaitEvent, &stream, event->id,
                                      [&] { gpu.WaitEvent(stream, *event); });
                      return cudaSuccess;
                    });
}

LOCKSTEP_SIM_EXPORT cudaError_t cudaDeviceSynchronize() {
  return RuntimeCall(cbid::kDeviceSynchronize, "cudaDeviceSynchronize", [](Gpu& gpu, ApiCall& call) {
    sim::RecordWait(gpu, call, SynchronizationType::kContextSynchronize, nullptr, 0,
                    [&] { gpu.SynchronizeAll(); });
    return cudaSuccess;
  });
}

// ---- events ----

LOCKSTEP_SIM_EXPORT cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return NewEvent(cbid::kEventCreate, "cudaEventCreate", event);
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return NewEvent(cbid::kEventCreateWithFlags, "cudaEventCreateWithFlags", event);
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return EventCall(cbid::kEventDestroy, "cudaEventDestroy", handle,
                   [](Gpu& gpu, ApiCall&, sim::Event& event) {
                     gpu.Delete(&event);
                     return cudaSuccess;
                   });
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  return EventCall(cbid::kEventRecord, "cudaEventRecord", handle,
                   [&](Gpu& gpu, ApiCall& call, sim::Event& event) {
                     sim::Stream* stream = gpu.Find(stream_handle);
                     if (stream == nullptr) return cudaErrorInvalidResourceHandle;
                     gpu.RecordEvent(*stream, event, call.correlation());
                     return cudaSuccess;
                   });
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return EventCall(cbid::kEventSynchronize, "cudaEventSynchronize", handle,
                   [](Gpu& gpu, ApiCall& call, sim::Event& event) {
                     sim::RecordWait(gpu, call, SynchronizationType::kEventSynchronize, nullptr, event.id,
                                     [&] { gpu.Synchronize(event); });
                     return cudaSuccess;
                   });
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return EventCall(
      cbid::kEventQuery, "cudaEventQuery", handle, [](Gpu& gpu, ApiCall& call, sim::Event& event) {
        const bool done = gpu.Done(event);
        if (RecordQuery(gpu, done))
          sim::RecordWait(gpu, call, SynchronizationType::kEventSynchronize, nullptr, event.id, [] {});
        return done ? cudaSuccess : cudaErrorNotReady;
      });
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start,
                                                     cudaEvent_t end) {
  return EventCall(cbid::kEventElapsedTime, "cudaEventElapsedTime", start,
                   [&](Gpu& gpu, ApiCall&, sim::Event& from) {
                     sim::Event* to = gpu.FindEvent(end);
                     if (to == nullptr) return cudaErrorInvalidResourceHandle;
                     if (milliseconds == nullptr) return cudaErrorInvalidValue;
                     int64_t from_ns = 0, to_ns = 0;
                     if (!gpu.Done(from) || !gpu.Done(*to)) return cudaErrorNotReady;
                     if (!gpu.TimeOf(from, &from_ns) || !gpu.TimeOf(*to, &to_ns))
                       return cudaErrorInvalidResourceHandle;
                     *milliseconds = static_cast<float>(static_cast<double>(to_ns - from_ns) / 1e6);
                     return cudaSuccess;
                   });
}

// ---- graphs: each handle owns one reference ----

LOCKSTEP_SIM_EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  return StreamCall(cbid::kStreamBeginCapture, "cudaStreamBeginCapture", handle,
                    [](Gpu& gpu, ApiCall&, sim::Stream& stream) {
                      return gpu.BeginCapture(stream) ? cudaSuccess : cudaErrorStreamCaptureUnsupported;
                    });
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return StreamCall(cbid::kStreamEndCapture, "cudaStreamEndCapture", handle,
                    [&](Gpu& gpu, ApiCall&, sim::Stream& stream) {
                      if (graph == nullptr) return cudaErrorInvalidValue;
                      *graph = nullptr;
                      if (!gpu.Capturing(stream)) return cudaErrorStreamCaptureUnmatched;
                      const std::shared_ptr<sim::Graph> made = gpu.EndCapture(stream);
                      if (made == nullptr) return cudaErrorStreamCaptureUnjoined;
                      *graph = HandleOf<cudaGraph_t>(new std::shared_ptr<sim::Graph>(made));
                      return cudaSuccess;
                    });
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return StreamCall(cbid::kStreamIsCapturing, "cudaStreamIsCapturing", handle,
                    [&](Gpu& gpu, ApiCall&, sim::Stream& stream) {
                      if (status == nullptr) return cudaErrorInvalidValue;
                      *status =
                          gpu.Capturing(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
                      return cudaSuccess;
                    });
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                                     unsigned long long) {
  return RuntimeCall(cbid::kGraphInstantiate, "cudaGraphInstantiate", [&](Gpu& gpu, ApiCall&) {
    if (executable == nullptr || graph == nullptr) return cudaErrorInvalidValue;
    const auto& from = *static_cast<std::shared_ptr<sim::Graph>*>(static_cast<void*>(graph));
    *executable =
        HandleOf<cudaGraphExec_t>(new std::shared_ptr<sim::GraphExecutable>(gpu.Instantiate(*from)));
    return cudaSuccess;
  });
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  return StreamCall(
      cbid::kGraphLaunch, "cudaGraphLaunch", handle, [&](Gpu& gpu, ApiCall& call, sim::Stream& stream) {
        if (executable == nullptr) return cudaErrorInvalidValue;
        ApiCall driver(gpu.activity(), cupti::CallbackDomain::kDriverApi, cupti::driver_cbid::kGraphLaunch,
                       "cuGraphLaunch");
        gpu.LaunchGraph(**static_cast<std::shared_ptr<sim::GraphExecutable>*>(static_cast<void*>(executable)),
                        stream, call.correlation());
        return cudaSuccess;
      });
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return RuntimeCall(cbid::kGraphDestroy, "cudaGraphDestroy", [&](Gpu&, ApiCall&) {
    delete static_cast<std::shared_ptr<sim::Graph>*>(static_cast<void*>(graph));
    return cudaSuccess;
  });
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return RuntimeCall(cbid::kGraphExecDestroy, "cudaGraphExecDestroy", [&](Gpu&, ApiCall&) {
    delete static_cast<std::shared_ptr<sim::GraphExecutable>*>(static_cast<void*>(executable));
    return cudaSuccess;
  });
}
