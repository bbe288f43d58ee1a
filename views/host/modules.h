// The module view: what each nn.Module cost, as a tree (torch-tb-profiler's module view).
//
// A module is: a frame named "nn.Module: Linear_0" of PyTorch's profiler (with_stack or with_modules), a
// range of that name, or, where there are none, the "Module Hierarchy" that PyTorch wrote on operators
// ("Top(Net).fc1(Linear)"), of which only the operators' time is known.
#ifndef LOCKSTEP_AGGREGATOR_VIEWS_MODULES_H_
#define LOCKSTEP_AGGREGATOR_VIEWS_MODULES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::views {

enum class ModuleSource : uint8_t { kNone, kFrames, kHierarchy };

// One module at one place of the tree; sums over its calls, on all ranks or on one.
struct ModuleRow {
  RankId rank = kNoRank;     // kNoRank: all
  std::string name;          // "Linear_0"
  std::string path;          // "Net_0/Linear_0"
  uint32_t depth = 0;        // 0: in no other module
  uint64_t occurrences = 0;  // kHierarchy: not known, 0
  uint64_t operators = 0;    // those that it called itself: neither a module in it nor an operator did
  Nanos host, self_host;  // self: without modules and operators in it; kHierarchy: of the operators that it
                          // called itself
  Nanos device, self_device;  // self: not launched in a module in it; kHierarchy: as self_host
};

struct Modules {
  std::vector<ModuleRow> rows;  // by rank, then each module before those in it, the most host time first
  ModuleSource source = ModuleSource::kNone;
};

enum class ModuleRanks : uint8_t { kTogether, kEach };

Modules ModulesOf(const store::Capture& capture, ModuleRanks ranks);

}  // namespace lockstep::views

#endif  // LOCKSTEP_AGGREGATOR_VIEWS_MODULES_H_
