// The module view: the cost of each nn.Module, as a tree (torch-tb-profiler's module view).
//
// A module is a frame "nn.Module: Linear_0" of PyTorch's profiler (with_stack or with_modules), or a range
// with such a name. Without those, modules come from the "Module Hierarchy" that PyTorch writes on operators
// ("Top(Net).fc1(Linear)"). Then only the time of the operators is known.
#ifndef LOCKSTEP_VIEWS_HOST_MODULES_H_
#define LOCKSTEP_VIEWS_HOST_MODULES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::views {

enum class ModuleSource : uint8_t { kNone, kFrames, kHierarchy };

// One module at one place of the tree. The figures are sums over its calls, on all ranks or on one.
struct ModuleRow {
  RankId rank = kNoRank;     // kNoRank: all ranks
  std::string name;          // "Linear_0"
  std::string path;          // "Net_0/Linear_0"
  uint32_t depth = 0;        // 0: inside no other module
  uint64_t occurrences = 0;  // kHierarchy: unknown, 0
  uint64_t operators = 0;    // those that it called itself, not through a module or operator inside it
  Nanos host, self_host;  // self: without the modules and operators inside it; kHierarchy: of the operators
                          // that it called itself
  Nanos device, self_device;  // self: not launched in a module inside it; kHierarchy: as self_host
};

struct Modules {
  std::vector<ModuleRow>
      rows;  // by rank; each module before those inside it, siblings by host time, longest first
  ModuleSource source = ModuleSource::kNone;
};

enum class ModuleRanks : uint8_t { kTogether, kEach };

Modules ModulesOf(const capture::Capture& capture, ModuleRanks ranks);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_HOST_MODULES_H_
