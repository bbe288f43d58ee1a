// Why a rank or a host is slow: rules in a fixed order, each with the numbers it rests on. Source:
// docs/causes.md.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_CAUSES_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_CAUSES_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/compare/excess.h"
#include "analysis/compare/host_gaps.h"
#include "analysis/compare/kernel_ratios.h"
#include "analysis/explain/cause_names.h"
#include "analysis/gains/gains.h"

namespace lockstep::analysis {

struct CauseFinding {
  Cause cause = Cause::kUnknown;
  double rule_share = 0;  // part of what it costs that the rule explains
  std::vector<std::string> evidence;
  std::optional<Nanos> late;  // how late it comes into each step, where that is what it costs
};

class CauseRules {
 public:
  // All of them must outlive it.
  CauseRules(const GraphInput& input, const Gains& gains, const Excess& excess, const KernelKinds& kinds)
      : in_(input), gains_(gains), excess_(excess), kinds_(kinds) {}

  // Of ranks whose kernels, copies or host are slow. `z`: how many sigmas their kernels stand out.
  CauseFinding OfKernels(std::span<const uint32_t> rank_indices, double z) const;
  CauseFinding OfCopies(uint32_t rank_index) const;
  CauseFinding OfHost(uint32_t rank_index, const Pieces& level, const Pieces& pauses) const;
  // What the split charges most of a rank's cost to: too few steps for anything better.
  CauseFinding OfCost(uint32_t rank_index, const RankCost& cost) const;

  KernelRatios Kernels(std::span<const uint32_t> rank_indices) const;

 private:
  const GraphInput& in_;
  const Gains& gains_;
  const Excess& excess_;
  const KernelKinds& kinds_;
};

// "7.49 ms", "212 us", "980 ns": three significant digits.
std::string LengthText(double ns);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_CAUSES_H_
