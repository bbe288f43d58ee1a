// Pieces of units' times that somebody is to be blamed for, or that a fix takes away.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_PIECES_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_PIECES_H_

#include <cstddef>
#include <vector>

#include "analysis/replay/graph.h"

namespace lockstep::analysis {

// So much of a unit's lead (its start) or of its work (its end), in nanoseconds of that one unit. Negative:
// it took less than it typically would.
struct Piece {
  NodeRef node;
  double ns;
};
using Pieces = std::vector<Piece>;

// Per step: the sum of the pieces.
double SumPerStep(const Pieces& pieces, size_t steps);
// By used step.
std::vector<double> ByStep(const Pieces& pieces, const Graph& graph, size_t steps);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_PIECES_H_
