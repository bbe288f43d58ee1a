// Fills one library's NVTX function tables with handlers that call `source`.
#ifndef LOCKSTEP_CLIENT_NVTX_INJECTION_H_
#define LOCKSTEP_CLIENT_NVTX_INJECTION_H_

#include "client/nvtx/nccl_calls.h"
#include "client/nvtx/nvtx_source.h"
#include "wire/foreign/nvtx.h"

namespace lockstep::client {

// Called once per library that uses NVTX, from any thread. The handlers know one source per process: the
// first. False: the tables could not be had; the library's NVTX then does nothing.
bool InstallNvtxHandlers(NvtxSource& source, foreign::nvtx::GetExportTableFn get_export_table);

// The same for the payload extension: schemas, enumerations, and events that are nothing but payloads. A
// library compiled with another version of it has fewer slots, or more. False: not an extension that matters
// here.
bool InstallNvtxExtensionHandlers(NvtxSource& source, foreign::nvtx::ExtensionInfo* extension);

// Where ranges of NCCL's domain go besides. Once, before any handler is installed; without it nowhere.
void SetNcclCalls(NcclCalls& calls);

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_NVTX_INJECTION_H_
