// Loads tools into the process in the same way as CUDA, NVTX and NCCL do.
#ifndef LOCKSTEP_SIM_RANK_LOADERS_H_
#define LOCKSTEP_SIM_RANK_LOADERS_H_

#include <cstdint>
#include <string>

#include "sim/cupti/core.h"
#include "wire/foreign/nccl_profiler.h"
#include "wire/foreign/nvtx.h"

namespace lockstep::sim {

// Loads the simulated CUPTI, so that a tool finds it as the loaded libcupti. An empty `path` means the folder
// of this program and the folders below. Returns null and a sentence in *why on failure.
const SimCore* LoadSimCupti(const std::string& path, std::string* why);

// Does the part of cuInit that tools see: it loads the library in CUDA_INJECTION64_PATH and calls
// InitializeInjection. It ignores failures, as CUDA does.
void EmulateCudaInit();

// NVTX as its headers compile it into a library. The first call loads the tool in NVTX_INJECTION64_PATH.
class NvtxLoader {
 public:
  NvtxLoader();
  void Push(const char* text) const;
  void Pop() const;

 private:
  static int GetModuleFunctionTable(foreign::nvtx::Module module, foreign::nvtx::FunctionTable* table,
                                    uint32_t* slots);
  static const void* GetExportTable(foreign::nvtx::ExportTable id);
};

// Finds a profiler plugin as NCCL does. NCCL_PROFILER_PLUGIN is a path, a library, a suffix, "none" or
// "STATIC_PLUGIN". It supports version 5 only, and returns null without a plugin.
const foreign::nccl::Profiler* LoadNcclProfiler();

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_RANK_LOADERS_H_
