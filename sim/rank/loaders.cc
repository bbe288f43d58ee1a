#include "sim/rank/loaders.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <vector>

namespace lockstep::sim {
namespace {

namespace nvtx = foreign::nvtx;

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string ProgramFolder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&EmulateCudaInit), &info) != 0 && info.dli_fname != nullptr &&
      strchr(info.dli_fname, '/') != nullptr) {
    return FolderOf(info.dli_fname);
  }
  char* exe = realpath("/proc/self/exe", nullptr);
  if (exe == nullptr) return ".";
  std::string folder = FolderOf(exe);
  free(exe);
  return folder;
}

// NVTX's tables are global to a linkage unit, and this program is such a unit.
nvtx::FunctionPointer g_core_functions[nvtx::kCoreSlots];
nvtx::FunctionPointer* g_core_table[nvtx::kCoreSlots];
nvtx::FunctionPointer g_core2_functions[nvtx::kCore2Slots];
nvtx::FunctionPointer* g_core2_table[nvtx::kCore2Slots];

template <typename Fn>
Fn Slot(nvtx::Core id) {
  return reinterpret_cast<Fn>(g_core_functions[static_cast<uint32_t>(id)]);
}

}  // namespace

const SimCore* LoadSimCupti(const std::string& path, std::string* why) {
  constexpr char kName[] = "liblockstep_sim_cupti.so";
  std::vector<std::string> places = {path};
  if (path.empty()) places = {ProgramFolder() + "/../lib/" + kName, ProgramFolder() + "/" + kName, kName};
  for (const std::string& place : places) {
    void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      *why = dlerror();
      continue;
    }
    const auto core = reinterpret_cast<SimCoreFn>(dlsym(library, kSimCoreSymbol));
    const SimCore* found = core == nullptr ? nullptr : core(kSimCoreVersion);
    if (found != nullptr) return found;
    *why = place + " is not the simulated CUPTI of this version";
  }
  return nullptr;
}

void EmulateCudaInit() {
  const char* path = getenv("CUDA_INJECTION64_PATH");
  if (path == nullptr || *path == '\0') return;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  const auto initialize =
      reinterpret_cast<foreign::cupti::InitializeInjectionFn>(dlsym(library, "InitializeInjection"));
  if (initialize != nullptr) initialize();
}

NvtxLoader::NvtxLoader() {
  for (uint32_t i = 0; i < nvtx::kCoreSlots; ++i) g_core_table[i] = &g_core_functions[i];
  for (uint32_t i = 0; i < nvtx::kCore2Slots; ++i) g_core2_table[i] = &g_core2_functions[i];
  const char* path = getenv("NVTX_INJECTION64_PATH");
  if (path == nullptr || *path == '\0') return;
  void* library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return;
  const auto initialize =
      reinterpret_cast<nvtx::InitializeInjectionNvtx2Fn>(dlsym(library, "InitializeInjectionNvtx2"));
  if (initialize != nullptr && initialize(&GetExportTable) == 0) {
    std::memset(g_core_functions, 0, sizeof g_core_functions);
  }
}

int NvtxLoader::GetModuleFunctionTable(nvtx::Module module, nvtx::FunctionTable* table, uint32_t* slots) {
  if (module == nvtx::Module::kCore) {
    *table = g_core_table;
    if (slots != nullptr) *slots = nvtx::kCoreSlots;
    return 1;
  }
  if (module == nvtx::Module::kCore2) {
    *table = g_core2_table;
    if (slots != nullptr) *slots = nvtx::kCore2Slots;
    return 1;
  }
  return 0;
}

const void* NvtxLoader::GetExportTable(nvtx::ExportTable id) {
  static constexpr nvtx::ExportTableCallbacks kCallbacks = {sizeof(nvtx::ExportTableCallbacks),
                                                            &NvtxLoader::GetModuleFunctionTable};
  static constexpr nvtx::ExportTableVersionInfo kVersion = {sizeof(nvtx::ExportTableVersionInfo), 3, 0,
                                                            [](uint32_t) {}};
  if (id == nvtx::ExportTable::kCallbacks) return &kCallbacks;
  if (id == nvtx::ExportTable::kVersionInfo) return &kVersion;
  return nullptr;
}

void NvtxLoader::Push(const char* text) const {
  if (const auto push = Slot<nvtx::RangePushAFn>(nvtx::Core::kRangePushA)) push(text);
}

void NvtxLoader::Pop() const {
  if (const auto pop = Slot<nvtx::RangePopFn>(nvtx::Core::kRangePop)) pop();
}

const foreign::nccl::Profiler* LoadNcclProfiler() {
  const char* name = getenv("NCCL_PROFILER_PLUGIN");
  if (name == nullptr || *name == '\0' || strcmp(name, "none") == 0) return nullptr;
  void* library = nullptr;
  if (strcmp(name, "STATIC_PLUGIN") == 0) {
    library = dlopen(nullptr, RTLD_NOW | RTLD_LOCAL);
  } else {
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      library = dlopen((std::string("libnccl-profiler-") + name + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) return nullptr;
  return static_cast<const foreign::nccl::Profiler*>(dlsym(library, "ncclProfiler_v5"));
}

}  // namespace lockstep::sim
