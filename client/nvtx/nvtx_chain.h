// Another NVTX tool behind ours: NVTX takes one injection per process, so ours loads the other's and hands it
// every call.
//
// For each library that uses NVTX the other initialises first, on the same tables; what it put into a slot is
// kept, and where ours has a handler too, one that calls both takes its place. The other's return value is
// the application's, so its handles (domains, strings, range ids) are what comes back, and ours are found
// through them. Where the other issues none, ours go out. Slots that only the other fills are left to it. A
// tool that cannot be loaded, or that refuses a library, is left out; ours works on.
//
// NVTX hands its handlers nothing to tell libraries apart, so the other's handlers are those it gave to the
// first library that it filled the slot of; a tool with handlers per library does not fit here.
#ifndef LOCKSTEP_CLIENT_NVTX_CHAIN_H_
#define LOCKSTEP_CLIENT_NVTX_CHAIN_H_

#include "client/nvtx/nvtx_source.h"
#include "wire/foreign/nvtx.h"

namespace lockstep::client {

// The other tool's entry points; null where it has none.
struct NvtxTool {
  foreign::nvtx::InitializeInjectionNvtx2Fn init = nullptr;
  foreign::nvtx::InitializeInjectionNvtxExtensionFn init_extension = nullptr;
};

// Loads the library; all null where `path` is null, cannot be loaded, or is this library itself. Allocates;
// not for callbacks.
NvtxTool LoadNvtxTool(const char* path);

// As InstallNvtxHandlers and InstallNvtxExtensionHandlers, with `tool` behind. From any thread.
bool InstallChainedNvtxHandlers(NvtxSource& source, const NvtxTool& tool,
                                foreign::nvtx::GetExportTableFn get_export_table);
bool InstallChainedNvtxExtensionHandlers(NvtxSource& source, const NvtxTool& tool,
                                         foreign::nvtx::ExtensionInfo* extension);

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_NVTX_CHAIN_H_
