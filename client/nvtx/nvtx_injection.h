// Fills a library's NVTX function tables with handlers that call `source`.
#ifndef LOCKSTEP_CLIENT_NVTX_NVTX_INJECTION_H_
#define LOCKSTEP_CLIENT_NVTX_NVTX_INJECTION_H_

#include "client/nvtx/nccl_calls.h"
#include "client/nvtx/nvtx_source.h"
#include "wire/foreign/nvtx.h"

namespace lockstep::client {

// Called once per library that uses NVTX, on any thread. The handlers know one source per process, the first
// one. Returns false if the tables are not available; the library's NVTX calls then do nothing.
bool InstallNvtxHandlers(NvtxSource& source, foreign::nvtx::GetExportTableFn get_export_table);

// The same for the payload extension: schemas, enumerations, and events that consist only of payloads. A
// library compiled with another version of it has fewer or more slots. Returns false for an extension that is
// not used here.
bool InstallNvtxExtensionHandlers(NvtxSource& source, foreign::nvtx::ExtensionInfo* extension);

// Sets the additional receiver of ranges in NCCL's domain. Call it once, before any handler is installed.
// Without it they have no other receiver.
void SetNcclCalls(NcclCalls& calls);

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_NVTX_NVTX_INJECTION_H_
