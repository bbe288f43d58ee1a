// What CUDA, NVTX and NCCL do to let a tool in, done as they do it.
#ifndef LOCKSTEP_SIM_RANK_LOADERS_H_
#define LOCKSTEP_SIM_RANK_LOADERS_H_

#include <cstdint>
#include <string>

#include "sim/cupti/core.h"
#include "wire/foreign/nccl_profiler.h"
#include "wire/foreign/nvtx.h"

namespace lockstep::sim {

// Loads the simulated CUPTI so that a tool that asks for the loaded libcupti finds it. `path` empty: beside
// or below this program. Null and a sentence in *why when it cannot be had.
const SimCore* LoadSimCupti(const std::string& path, std::string* why);

// The part of cuInit that tools see: loads the library of CUDA_INJECTION64_PATH and calls
// InitializeInjection. Failure is silent, as in CUDA.
void EmulateCudaInit();

// NVTX as its headers compile it into a library: dormant, until the first call finds NVTX_INJECTION64_PATH.
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

// NCCL's search for a profiler plugin: NCCL_PROFILER_PLUGIN as a path, a library, a suffix, "none" or
// "STATIC_PLUGIN". Version 5 only. Null: there is none.
const foreign::nccl::Profiler* LoadNcclProfiler();

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_RANK_LOADERS_H_
