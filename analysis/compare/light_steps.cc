#include "analysis/compare/light_steps.h"

#include <algorithm>
#include <cmath>

namespace lockstep::analysis {
namespace {

// A middle value that is this many errors below the usual time is not chance.
constexpr double kSignificantErrors = 4.0;
// Ratio of the error of a median to that of a mean.
constexpr double kMedianError = 1.25;
// Old traces have whole microseconds at both ends.
constexpr double kRoundingNs = 2'000;

}  // namespace

std::vector<StepValue> FindLightSteps(std::span<StepValue> values, const Usual& usual) {
  std::vector<StepValue> light;
  const double least = std::max(usual.least_share * std::fabs(usual.ns), kRoundingNs);
  if (std::none_of(values.begin(), values.end(), [&](const StepValue& v) { return v.ns < usual.ns - least; }))
    return light;
  const auto earlier = [](const StepValue& a, const StepValue& b) { return a.step < b.step; };
  if (!std::is_sorted(values.begin(), values.end(), earlier))
    std::sort(values.begin(), values.end(), earlier);
  for (auto first = values.begin(); first != values.end();) {
    const auto last = std::upper_bound(first, values.end(), *first, earlier);
    const auto middle = first + (last - first) / 2;
    std::nth_element(first, middle, last, [](const StepValue& a, const StepValue& b) { return a.ns < b.ns; });
    const double error = kMedianError * usual.sigma / std::sqrt(static_cast<double>(last - first));
    if (usual.ns - middle->ns > std::max(least, kSignificantErrors * error)) light.push_back(*middle);
    first = last;
  }
  return light;
}

}  // namespace lockstep::analysis
