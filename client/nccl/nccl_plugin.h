// The function tables NCCL looks up in the library, over one NcclSource.
#ifndef LOCKSTEP_CLIENT_NCCL_PLUGIN_H_
#define LOCKSTEP_CLIENT_NCCL_PLUGIN_H_

#include "client/nccl/nccl_chain.h"
#include "client/nccl/nccl_source.h"
#include "wire/foreign/nccl_profiler.h"
#include "wire/foreign/nccl_profiler_old.h"

namespace lockstep::client {

// The tables' functions call this process's source; set before NCCL can find the tables. `came_up` is called
// at each communicator's init: CUDA is up by then, whoever else holds CUDA's own injection.
void SetNcclSource(NcclSource& source, void (*came_up)());
// The plugin behind ours; null, or one that wants none: nothing is behind. Before NCCL can find the tables.
void SetNcclChain(NcclChain* chain);

}  // namespace lockstep::client

// What NCCL looks up: exported, and built at compile time, so they are there before any code of ours has run.
extern "C" {
extern const lockstep::foreign::nccl::ProfilerV1 ncclProfiler_v1;
extern const lockstep::foreign::nccl::ProfilerV2 ncclProfiler_v2;
extern const lockstep::foreign::nccl::ProfilerV3 ncclProfiler_v3;
extern const lockstep::foreign::nccl::ProfilerV4 ncclProfiler_v4;
extern const lockstep::foreign::nccl::Profiler ncclProfiler_v5;
extern const lockstep::foreign::nccl::Profiler ncclProfiler_v6;
}

#endif  // LOCKSTEP_CLIENT_NCCL_PLUGIN_H_
