// Uneven work that nobody's hardware is to blame for: long sequences, experts with more tokens.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_IMBALANCE_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_IMBALANCE_H_

#include <cstdint>
#include <vector>

#include "analysis/compare/classes.h"
#include "analysis/compare/excess.h"
#include "analysis/compare/kernel_kind.h"
#include "analysis/compare/pieces.h"
#include "analysis/compare/typical.h"

namespace lockstep::analysis {

// Kernels that do the same in every step and still take differently long, together with their neighbours in
// time: what they are given differs.
struct SequenceImbalance {
  bool found = false;
  double spread = 0;         // relative standard deviation that neighbours share
  double shared = 0;         // part of the variance that they share
  double others_spread = 0;  // the same of matrix products
  double rank_share = 0;     // part of the variance that stays with a rank: 0 when it moves freely
  bool attention_only = false;
  Pieces pieces;  // what makes every such kernel take its rank's mean
};
SequenceImbalance FindSequenceImbalance(const GraphInput& input, const Graph& graph, const Classes& classes,
                                        const TypicalValues& typical, const KernelKinds& kinds);

// Grouped matrix products that take as long as the tokens which their rank was sent.
struct ExpertImbalance {
  bool found = false;
  std::vector<uint32_t> rank_indices;  // that got more than the mean, most first
  double spread = 0;                   // (most - mean) / mean of the ranks' times
  double busiest = 1;                  // ratio to the mean
  double bytes_correlation = 0;  // of the time with the bytes of the all-to-all before it, over ranks and
                                 // steps; 0: sizes are equal or unknown
  Pieces pieces;                 // what brings every rank to the mean
  Pieces exchanges;              // and what their all-to-alls take longer because some receive more
};
ExpertImbalance FindExpertImbalance(const GraphInput& input, const Graph& graph, const KernelKinds& kinds);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_IMBALANCE_H_
