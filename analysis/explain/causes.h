// Finds the cause of a slow rank or host by rules in a fixed order, with the figures behind each. Source:
// docs/causes.md.
#ifndef LOCKSTEP_ANALYSIS_EXPLAIN_CAUSES_H_
#define LOCKSTEP_ANALYSIS_EXPLAIN_CAUSES_H_

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
  double rule_share = 0;  // share of the cost that the rule explains
  std::vector<std::string> evidence;
  std::optional<Nanos> late;  // its lateness in each step, if that is its cost
};

class CauseRules {
 public:
  // All references must outlive it.
  CauseRules(const GraphInput& input, const Gains& gains, const Excess& excess, const KernelKinds& kinds)
      : in_(input), gains_(gains), excess_(excess), kinds_(kinds) {}

  // Causes for ranks with slow kernels, copies or hosts. `z`: sigmas by which their kernels stand out.
  CauseFinding OfKernels(std::span<const uint32_t> rank_indices, double z) const;
  CauseFinding OfCopies(uint32_t rank_index) const;
  CauseFinding OfHost(uint32_t rank_index, const Pieces& level, const Pieces& pauses) const;
  // Cause by the largest part of the rank's charge in the split, if there are too few steps for better rules.
  CauseFinding OfCost(uint32_t rank_index, const RankCost& cost) const;

  KernelRatios Kernels(std::span<const uint32_t> rank_indices) const;

 private:
  const GraphInput& in_;
  const Gains& gains_;
  const Excess& excess_;
  const KernelKinds& kinds_;
};

// Three significant digits: "7.49 ms", "212 us", "980 ns".
std::string LengthText(double ns);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_EXPLAIN_CAUSES_H_
