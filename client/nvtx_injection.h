// Fills one library's NVTX function tables with handlers that call `source`.
#ifndef LOCKSTEP_CLIENT_NVTX_INJECTION_H_
#define LOCKSTEP_CLIENT_NVTX_INJECTION_H_

#include "client/nvtx_source.h"
#include "common/foreign/nvtx.h"

namespace lockstep::client {

// Called once per library that uses NVTX, from any thread. The handlers know one source per process: the
// first. False: the tables could not be had; the library's NVTX then does nothing.
bool InstallNvtxHandlers(NvtxSource& source, foreign::nvtx::GetExportTableFn get_export_table);

// The same for the payload extension, through which NCCL ends some of its ranges. Payloads themselves are not
// read. False: not an extension that matters here.
bool InstallNvtxExtensionHandlers(NvtxSource& source, foreign::nvtx::ExtensionInfo* extension);

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_NVTX_INJECTION_H_
