// What limits a kernel: the multiplier units, the memory, or the data it is given. Causes show in some kinds
// and not in others.
//
// By name, as libraries and compilers name their kernels; where the name tells nothing, by how long one wave
// of its blocks takes: a tile of a matrix product keeps a block busy for tens of microseconds, a block that
// streams through memory is done in a few.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_KERNEL_KIND_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_KERNEL_KIND_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::analysis {

enum class KernelKind : uint8_t {
  kMatrix,     // matrix products and convolutions: follow the clock
  kAttention,  // grows with the squares of the sequences' lengths
  kGrouped,    // experts' matrix products: grow with the tokens routed to them
  kMemory,     // element by element, norms, optimizers: follow the memory
};
inline constexpr size_t kKernelKinds = 4;

// nullopt: the name does not tell.
std::optional<KernelKind> KindByName(std::string_view kernel);

// Looks each distinct name up once. `capture` must outlive it.
class KernelKinds {
 public:
  explicit KernelKinds(const store::Capture& capture);
  KernelKind Of(const store::RankData& rank, const store::DeviceActivity& kernel) const;

 private:
  std::vector<std::optional<KernelKind>> by_name_;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_KERNEL_KIND_H_
