// Pieces of units' times that are attributed to a cause, or that a fix removes.
#ifndef LOCKSTEP_ANALYSIS_COMPARE_PIECES_H_
#define LOCKSTEP_ANALYSIS_COMPARE_PIECES_H_

#include <cstddef>
#include <vector>

#include "analysis/replay/graph.h"

namespace lockstep::analysis {

// A part of one unit's lag (at its start) or work (at its end), in nanoseconds. Negative: the unit took less
// than is typical.
struct Piece {
  NodeRef node;
  double ns;
};
using Pieces = std::vector<Piece>;

// The sum of the pieces, per step.
double SumPerStep(const Pieces& pieces, size_t steps);
// The sum of the pieces by used step.
std::vector<double> ByStep(const Pieces& pieces, const Graph& graph, size_t steps);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_COMPARE_PIECES_H_
