#include "analysis/compare/host_pauses.h"

#include <algorithm>
#include <cmath>

#include "base/median.h"

namespace lockstep::analysis {
namespace {

// A pause stands out of its class by so many robust sigmas, by this part of the typical value, and by this
// much.
constexpr double kPauseSigmas = 6.0;
constexpr double kPauseShare = 0.25;
constexpr double kPauseNs = 100'000;

}  // namespace

HostPauses::HostPauses(const Graph& graph, const Classes& classes, const TypicalValues& typical)
    : graph_(graph), classes_(classes), typical_(typical) {
  sigma_.assign(classes_.count, 0);
  std::vector<double> residuals;
  for (uint32_t first = 0; first < classes_.cells.size();) {
    const uint32_t klass = classes_.cells[first].klass;
    const bool has_lead = HasLead(classes_.cells[first].kind);
    residuals.clear();
    for (; first < classes_.cells.size() && classes_.cells[first].klass == klass; ++first) {
      if (!has_lead) continue;
      for (uint32_t u : classes_.UnitsOf(classes_.cells[first])) {
        if (!graph_.units[u].is_head)
          residuals.push_back(std::fabs(graph_.lead[u] - typical_.stats()[first].own_lead));
      }
    }
    if (has_lead) sigma_[klass] = 1.4826 * MedianInPlace(std::span(residuals));
  }
}

double HostPauses::At(uint32_t cell, uint32_t unit) const {
  const CellStats& s = typical_.stats()[cell];
  if (!HasLead(classes_.cells[cell].kind) || graph_.units[unit].is_head) return 0;
  const double beyond = graph_.lead[unit] - s.own_lead;
  const double allowed = std::max(
      {kPauseSigmas * sigma_[classes_.cells[cell].klass], kPauseShare * std::fabs(s.own_lead), kPauseNs});
  return beyond > allowed ? beyond : 0;
}

}  // namespace lockstep::analysis
