// Uneven work that is not the fault of any hardware: long sequences, experts with more tokens.
#ifndef LOCKSTEP_ANALYSIS_COMPARE_IMBALANCE_H_
#define LOCKSTEP_ANALYSIS_COMPARE_IMBALANCE_H_

#include <cstdint>
#include <vector>

#include "analysis/compare/classes.h"
#include "analysis/compare/excess.h"
#include "analysis/compare/kernel_kind.h"
#include "analysis/compare/pieces.h"
#include "analysis/compare/typical.h"

namespace lockstep::analysis {

// Kernels that do the same in every step but take different times, together with their neighbours in time.
// Their inputs differ.
struct SequenceImbalance {
  bool found = false;
  double spread = 0;         // relative standard deviation that neighbours share
  double shared = 0;         // share of the variance that neighbours share
  double others_spread = 0;  // `spread` of matrix products
  double rank_share = 0;     // share of the variance that stays with a rank; 0: it moves freely
  bool attention_only = false;
  Pieces pieces;  // without them, every such kernel takes its rank's mean
};
SequenceImbalance FindSequenceImbalance(const GraphInput& input, const Graph& graph, const Classes& classes,
                                        const TypicalValues& typical, const KernelKinds& kinds);

// Grouped matrix products, whose time depends on the number of tokens that their rank received.
// Times follow the bytes received if their correlation is above this.
inline constexpr double kFollowsBytes = 0.5;

struct ExpertImbalance {
  bool found = false;
  bool are_grouped = false;            // the experts' products are grouped kernels
  std::vector<uint32_t> rank_indices;  // ranks above the mean, most first
  double spread = 0;                   // (most - mean) / mean of the ranks' times
  double busiest = 1;                  // ratio to the mean
  double bytes_correlation = 0;  // correlation of the time with the bytes received in the all-to-all before
                                 // it, over ranks and steps; 0: sizes are equal or unknown
  Pieces pieces;                 // without them, every rank takes the mean
  Pieces exchanges;              // additional time of the all-to-alls because some ranks receive more
};
ExpertImbalance FindExpertImbalance(const GraphInput& input, const Graph& graph, const KernelKinds& kinds);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_COMPARE_IMBALANCE_H_
