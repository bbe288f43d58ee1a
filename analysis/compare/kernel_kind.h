// The limiting factor of a kernel: the multiplier units, the memory, or its input. Causes show in some kinds
// and not in others.
//
// The kind comes from the name that libraries and compilers give the kernel. If the name does not show it,
// the time of one wave of its blocks decides. A tile of a matrix product keeps a block busy for tens of
// microseconds. A block that streams through memory is done in a few.
#ifndef LOCKSTEP_ANALYSIS_COMPARE_KERNEL_KIND_H_
#define LOCKSTEP_ANALYSIS_COMPARE_KERNEL_KIND_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::analysis {

enum class KernelKind : uint8_t {
  kMatrix,     // matrix products and convolutions; they follow the clock
  kAttention,  // its time grows with the squares of the sequences' lengths
  kGrouped,    // experts' matrix products; their time grows with the tokens routed to them
  kMemory,     // element-wise kernels, norms, optimizers; they follow the memory
};
inline constexpr size_t kKernelKinds = 4;

// nullopt: the name does not show the kind.
std::optional<KernelKind> KindByName(std::string_view kernel);

// Looks each distinct name up once. `capture` must outlive it.
class KernelKinds {
 public:
  explicit KernelKinds(const capture::Capture& capture);
  KernelKind Of(const capture::RankData& rank, const capture::DeviceActivity& kernel) const;

 private:
  std::vector<std::optional<KernelKind>> by_name_;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_COMPARE_KERNEL_KIND_H_
