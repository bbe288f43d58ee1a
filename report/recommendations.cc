// MakeRecommendations(): what to do, the largest gain first.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "analysis/prepare/steps.h"
#include "report/first_line.h"
#include "report/rows.h"

namespace lockstep::report {
namespace {

// A shared loss of this share of the step has an action.
constexpr double kActOn = 0.1;

}  // namespace

std::vector<std::string> MakeRecommendations(const Report& report) {
  std::vector<std::string> out;
  if (report.capture.steps < analysis::kLeastSteps && !report.ranks.empty()) {
    out.push_back(absl::StrFormat(
        "capture %d more whole steps: a verdict needs at least %d, effects of a few percent about 20",
        analysis::kLeastSteps - report.capture.steps, analysis::kLeastSteps));
  }
  // The largest gain comes first.
  std::vector<std::pair<double, std::string>> actions;
  for (const StragglerRow& s : report.stragglers) {
    if (!s.action.empty())
      actions.emplace_back(std::max(s.gain_ns_per_step.value_or(0), s.lost_ns_per_step), s.action);
  }
  for (const SharedLossRow& s : report.shared_losses) {
    if (&s == LeadingSharedLoss(report) || s.share_of_step >= kActOn)
      actions.emplace_back(s.lost_ns_per_step, s.action);
  }
  const bool shared_leads = MakeFirstLine(report).headline == Headline::kSlowJob;
  std::stable_sort(actions.begin(), actions.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  // A loss by design may be larger than the straggler that leads.
  if (!shared_leads && !report.stragglers.empty()) {
    const auto leading = std::find_if(actions.begin(), actions.end(),
                                      [&](const auto& a) { return a.second == report.stragglers[0].action; });
    if (leading != actions.end()) std::rotate(actions.begin(), leading, leading + 1);
  }
  for (auto& [gain, action] : actions) out.push_back(std::move(action));
  return out;
}

}  // namespace lockstep::report
