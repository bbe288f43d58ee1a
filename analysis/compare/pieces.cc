#include "analysis/compare/pieces.h"

namespace lockstep::analysis {

double SumPerStep(const Pieces& pieces, size_t steps) {
  double sum = 0;
  for (const Piece& p : pieces) sum += p.ns;
  return steps == 0 ? 0 : sum / static_cast<double>(steps);
}

std::vector<double> ByStep(const Pieces& pieces, const Graph& graph, size_t steps) {
  std::vector<double> sums(steps, 0);
  for (const Piece& p : pieces) {
    const int32_t step = graph.units[UnitOf(p.node)].step;
    if (step >= 0) sums[static_cast<size_t>(step)] += p.ns;
  }
  return sums;
}

}  // namespace lockstep::analysis
