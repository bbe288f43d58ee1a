// The function tables that NCCL looks up in the library. They call one NcclSource.
#ifndef LOCKSTEP_CLIENT_NCCL_NCCL_PLUGIN_H_
#define LOCKSTEP_CLIENT_NCCL_NCCL_PLUGIN_H_

#include "client/nccl/nccl_chain.h"
#include "client/nccl/nccl_source.h"
#include "wire/foreign/nccl_profiler.h"
#include "wire/foreign/nccl_profiler_old.h"

namespace lockstep::client {

// Sets the source that the tables' functions call. Call it before NCCL can find the tables. `on_init` is
// called at each communicator's init. CUDA is initialised by then, even if another tool has CUDA's injection.
void SetNcclSource(NcclSource& source, void (*on_init)());
// Sets the plugin behind ours. There is none if `chain` is null or names no plugin. Call it before NCCL can
// find the tables.
void SetNcclChain(NcclChain* chain);

}  // namespace lockstep::client

// The symbols that NCCL looks up. They are built at compile time, so they are valid before any of our code
// runs.
extern "C" {
extern const lockstep::foreign::nccl::ProfilerV1 ncclProfiler_v1;
extern const lockstep::foreign::nccl::ProfilerV2 ncclProfiler_v2;
extern const lockstep::foreign::nccl::ProfilerV3 ncclProfiler_v3;
extern const lockstep::foreign::nccl::ProfilerV4 ncclProfiler_v4;
extern const lockstep::foreign::nccl::Profiler ncclProfiler_v5;
extern const lockstep::foreign::nccl::Profiler ncclProfiler_v6;
}

#endif  // LOCKSTEP_CLIENT_NCCL_NCCL_PLUGIN_H_
