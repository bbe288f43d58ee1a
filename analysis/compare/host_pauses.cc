#include "analysis/compare/host_pauses.h"

#include <algorithm>
#include <cmath>

#include "base/median.h"

namespace lockstep::analysis {
namespace {

// A pause exceeds the usual gap by all of these: robust sigmas of its class, a share of the gap, and a time.
constexpr double kPauseSigmas = 6.0;
constexpr double kPauseShare = 0.25;
constexpr double kPauseNs = 100'000;

}  // namespace

HostPauses::HostPauses(const Graph& graph, const Classes& classes, const TypicalValues& typical)
    : graph_(graph), classes_(classes), typical_(typical) {
  sigma_.assign(classes_.count, 0);
  std::vector<double> residuals;
  for (uint32_t first = 0; first < classes_.cells.size();) {
    const uint32_t class_index = classes_.cells[first].class_index;
    const bool has_lag = HasLag(classes_.cells[first].kind);
    residuals.clear();
    for (; first < classes_.cells.size() && classes_.cells[first].class_index == class_index; ++first) {
      if (!has_lag) continue;
      for (uint32_t u : classes_.UnitsOf(classes_.cells[first])) {
        if (!graph_.units[u].is_head)
          residuals.push_back(std::fabs(graph_.lag[u] - typical_.stats()[first].own_lag));
      }
    }
    if (has_lag) sigma_[class_index] = 1.4826 * MedianInPlace(std::span(residuals));
  }
}

double HostPauses::At(uint32_t cell, uint32_t unit) const {
  const CellStats& s = typical_.stats()[cell];
  if (!HasLag(classes_.cells[cell].kind) || graph_.units[unit].is_head) return 0;
  const double beyond = graph_.lag[unit] - s.own_lag;
  const double allowed = std::max({kPauseSigmas * sigma_[classes_.cells[cell].class_index],
                                   kPauseShare * std::fabs(s.own_lag), kPauseNs});
  return beyond > allowed ? beyond : 0;
}

}  // namespace lockstep::analysis
