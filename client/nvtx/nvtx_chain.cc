#include "client/nvtx/nvtx_chain.h"

#include <dlfcn.h>

#include "client/nvtx/nvtx_chain_handlers.h"
#include "client/nvtx/nvtx_injection.h"

namespace lockstep::client {
namespace {

namespace nvtx = foreign::nvtx;

// The functions in a module's slots at one point of the installation.
template <uint32_t most>
struct Snapshot {
  nvtx::FunctionPointer at[most] = {};
};

struct Table {
  nvtx::FunctionTable table = nullptr;
  uint32_t slots = 0;

  template <uint32_t most>
  Snapshot<most> Look() const {
    Snapshot<most> seen;
    for (uint32_t i = 0; i < slots && i < most; ++i) seen.at[i] = table[i] == nullptr ? nullptr : *table[i];
    return seen;
  }
  // Undoes the writes of a tool that refused.
  template <uint32_t most>
  void Restore(const Snapshot<most>& seen) const {
    for (uint32_t i = 0; i < slots && i < most; ++i) {
      if (table[i] != nullptr) *table[i] = seen.at[i];
    }
  }
};

Table TableOf(nvtx::GetExportTableFn get_export_table, nvtx::Module module) {
  Table table;
  if (get_export_table == nullptr) return table;
  const auto* callbacks =
      static_cast<const nvtx::ExportTableCallbacks*>(get_export_table(nvtx::ExportTable::kCallbacks));
  if (callbacks == nullptr || callbacks->struct_size < sizeof *callbacks ||
      callbacks->get_module_function_table(module, &table.table, &table.slots) == 0) {
    return {};
  }
  return table;
}

// NVTX's own start-up functions are in the slots until a tool fills them, so a changed slot belongs to the
// chained tool. Ours goes behind a chaining handler even if the chained tool has none, because the
// application's handles may be that tool's.
template <uint32_t most, typename Set>
void Chain(ChainedFunctions<most>& functions, const Snapshot<most>& before,
           const Snapshot<most>& with_chained, const Snapshot<most>& with_ours,
           nvtx::FunctionPointer (*handler_of)(uint32_t), Set set) {
  for (uint32_t i = 0; i < most; ++i) {
    const bool chained = with_chained.at[i] != before.at[i] && with_chained.at[i] != nullptr;
    const bool ours = with_ours.at[i] != with_chained.at[i] && with_ours.at[i] != nullptr;
    nvtx::FunctionPointer both = handler_of(i);
    if (!ours || both == nullptr) continue;
    nvtx::FunctionPointer none = nullptr;
    if (chained) functions.chained[i].compare_exchange_strong(none, with_chained.at[i]);
    functions.ours[i].store(with_ours.at[i]);
    set(i, both);
  }
}

}  // namespace

NvtxTool LoadNvtxTool(const char* path) {
  NvtxTool tool;
  if (path == nullptr || path[0] == '\0') return tool;
  void* library = ::dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return tool;
  Dl_info self;
  Dl_info other;
  void* init = ::dlsym(library, "InitializeInjectionNvtx2");
  // If the tool is this library itself, every call would recurse for ever.
  const bool known = init != nullptr && ::dladdr(reinterpret_cast<void*>(&LoadNvtxTool), &self) != 0 &&
                     ::dladdr(init, &other) != 0;
  if (!known || self.dli_fbase == other.dli_fbase) return tool;
  tool.init = reinterpret_cast<nvtx::InitializeInjectionNvtx2Fn>(init);
  tool.init_extension = reinterpret_cast<nvtx::InitializeInjectionNvtxExtensionFn>(
      ::dlsym(library, "InitializeInjectionNvtxExtension"));
  return tool;
}

bool InstallChainedNvtxHandlers(NvtxSource& source, const NvtxTool& tool,
                                nvtx::GetExportTableFn get_export_table) {
  if (tool.init == nullptr) return InstallNvtxHandlers(source, get_export_table);
  const Table core = TableOf(get_export_table, nvtx::Module::kCore);
  const Table core2 = TableOf(get_export_table, nvtx::Module::kCore2);
  const auto core_before = core.Look<nvtx::kCoreSlots>();
  const auto core2_before = core2.Look<nvtx::kCore2Slots>();
  const bool joined = tool.init(get_export_table) != 0;
  if (!joined) {
    core.Restore(core_before);
    core2.Restore(core2_before);
  }
  const auto core_chained = joined ? core.Look<nvtx::kCoreSlots>() : core_before;
  const auto core2_chained = joined ? core2.Look<nvtx::kCore2Slots>() : core2_before;
  if (!InstallNvtxHandlers(source, get_export_table) || !joined) return true;
  Chain(g_core, core_before, core_chained, core.Look<nvtx::kCoreSlots>(), ChainedCore,
        [&](uint32_t i, nvtx::FunctionPointer both) { *core.table[i] = both; });
  Chain(g_core2, core2_before, core2_chained, core2.Look<nvtx::kCore2Slots>(), ChainedCore2,
        [&](uint32_t i, nvtx::FunctionPointer both) { *core2.table[i] = both; });
  return true;
}

bool InstallChainedNvtxExtensionHandlers(NvtxSource& source, const NvtxTool& tool,
                                         nvtx::ExtensionInfo* extension) {
  if (tool.init_extension == nullptr || extension == nullptr || extension->struct_size < sizeof *extension ||
      extension->module_id != nvtx::kPayloadModuleId || extension->segment_count == 0) {
    const bool joined = tool.init_extension != nullptr && tool.init_extension(extension) != 0;
    return InstallNvtxExtensionHandlers(source, extension) || joined;
  }
  const nvtx::ExtensionSegment& segment = extension->segments[0];
  const auto look = [&segment] {
    Snapshot<kPayloadSlots> seen;
    for (uint32_t i = 0; i < kPayloadSlots && i < segment.slot_count; ++i)
      seen.at[i] = reinterpret_cast<nvtx::FunctionPointer>(segment.function_slots[i]);
    return seen;
  };
  const auto before = look();
  const bool joined = tool.init_extension(extension) != 0;
  for (uint32_t i = 0; !joined && i < kPayloadSlots && i < segment.slot_count; ++i)
    segment.function_slots[i] = reinterpret_cast<intptr_t>(before.at[i]);
  const auto chained = look();
  if (!InstallNvtxExtensionHandlers(source, extension) || !joined) return true;
  Chain(g_payload, before, chained, look(), ChainedPayload, [&](uint32_t i, nvtx::FunctionPointer both) {
    segment.function_slots[i] = reinterpret_cast<intptr_t>(both);
  });
  return true;
}

}  // namespace lockstep::client
