// MakeRecommendations(): actions, that of the leading loss first, then by gain.
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
    const size_t more = analysis::kLeastSteps - report.capture.steps;
    out.push_back(absl::StrFormat(
        "capture %d more whole step%s: a verdict needs at least %d, effects of a few percent about 20", more,
        more == 1 ? "" : "s", analysis::kLeastSteps));
  }
  const bool nothing_judged = !report.not_judged.empty() && report.not_judged[0].what == kEverything;
  if (nothing_judged && report.capture.steps >= analysis::kLeastSteps)
    out.push_back(report.not_judged[0].what_would_tell);
  struct Action {
    bool leads;  // of the loss that the first line names
    double gain;
    const std::string* text;
  };
  std::vector<Action> actions;
  const FirstLine first = MakeFirstLine(report);
  const SharedLossRow* leading = first.shared;
  const std::vector<uint32_t> entries =
      leading == nullptr && first.entries.empty() ? std::vector<uint32_t>{0} : first.entries;
  for (size_t i = 0; i < report.stragglers.size(); ++i) {
    const StragglerRow& s = report.stragglers[i];
    if (!s.action.empty())
      actions.push_back({std::find(entries.begin(), entries.end(), i) != entries.end(),
                         std::max(s.gain_ns_per_step.value_or(0), s.lost_ns_per_step), &s.action});
  }
  for (const SharedLossRow& s : report.shared_losses) {
    if (&s == leading || s.share_of_step >= kActOn)
      actions.push_back({&s == leading, s.lost_ns_per_step, &s.action});
  }
  std::stable_sort(actions.begin(), actions.end(), [](const Action& a, const Action& b) {
    return std::pair(a.leads, a.gain) > std::pair(b.leads, b.gain);
  });
  for (const Action& action : actions) out.push_back(*action.text);
  return out;
}

}  // namespace lockstep::report
