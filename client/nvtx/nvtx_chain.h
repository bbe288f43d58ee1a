// Chains another NVTX tool behind ours. NVTX accepts one injection per process, so ours loads the other
// ("chained") one and forwards every call.
//
// For each library that uses NVTX, the chained tool initialises first, on the same tables. Its functions are
// kept. A slot that ours fills too gets a handler that calls both. Slots that only the chained tool fills
// stay its own.
//
// The application receives the return value of the chained tool. Handles (domains, strings, range ids) are
// therefore that tool's, and ours are found through them. If it issues none, the application receives ours. A
// tool that cannot be loaded, or that refuses a library, is left out, and ours still works.
//
// NVTX gives its handlers no way to distinguish libraries. The chained handler of a slot is therefore the one
// for the first library in which the chained tool filled that slot. A tool with separate handlers per library
// does not work here.
#ifndef LOCKSTEP_CLIENT_NVTX_NVTX_CHAIN_H_
#define LOCKSTEP_CLIENT_NVTX_NVTX_CHAIN_H_

#include "client/nvtx/nvtx_source.h"
#include "wire/foreign/nvtx.h"

namespace lockstep::client {

// The chained tool's entry points; null if it lacks them.
struct NvtxTool {
  foreign::nvtx::InitializeInjectionNvtx2Fn init = nullptr;
  foreign::nvtx::InitializeInjectionNvtxExtensionFn init_extension = nullptr;
};

// Loads the library. All members are null if `path` is null, cannot be loaded, or is this library itself. It
// allocates, so do not call it in callbacks.
NvtxTool LoadNvtxTool(const char* path);

// Like InstallNvtxHandlers and InstallNvtxExtensionHandlers, with `tool` behind ours. Any thread may call
// them.
bool InstallChainedNvtxHandlers(NvtxSource& source, const NvtxTool& tool,
                                foreign::nvtx::GetExportTableFn get_export_table);
bool InstallChainedNvtxExtensionHandlers(NvtxSource& source, const NvtxTool& tool,
                                         foreign::nvtx::ExtensionInfo* extension);

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_NVTX_NVTX_CHAIN_H_
