#include "report/recommendations.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_format.h"
#include "analysis/explain/judged.h"
#include "analysis/prepare/steps.h"
#include "report/first_line.h"

namespace lockstep::report {
namespace {

// A shared loss of this share of the step has an action.
constexpr double kActOn = 0.1;
// Steps that show effects of a few percent.
constexpr size_t kUsefulSteps = 20;
// An interval is half as wide with this many times the steps.
constexpr size_t kTimesSteps = 4;

// " (lockstep trace --steps 20)": the command that captures as many steps of a job that Lockstep follows.
std::string CommandFor(const Report& report, size_t steps) {
  return report.capture.source == "live" ? absl::StrFormat(" (lockstep trace --steps %d)", steps) : "";
}

}  // namespace

std::vector<Recommendation> MakeRecommendations(const Report& report) {
  std::vector<Recommendation> out;
  const FirstLine first = MakeFirstLine(report);
  const bool nothing_judged = !report.not_judged.empty() && report.not_judged[0].what == kEverything;
  // Nothing else is worth doing before more is captured.
  if (first.headline == Headline::kTooFewSteps) {
    out.push_back({absl::StrFormat("capture again, at least %d whole steps%s; effects of a few percent need "
                                   "about %d",
                                   analysis::kLeastSteps, CommandFor(report, kUsefulSteps), kUsefulSteps),
                   false});
  } else if (nothing_judged && first.urgency == Urgency::kNobodyYet) {
    out.push_back({report.not_judged[0].what_would_tell, false});
  } else if (first.urgency == Urgency::kNobodyYet) {
    const size_t steps = kTimesSteps * report.steps.size();
    const bool of_several = report.stragglers[0].kind == "group";
    out.push_back({of_several ? analysis::kCompareWithFast
                              : absl::StrFormat("capture about %d steps%s: the interval of the gain is then "
                                                "half as wide",
                                                steps, CommandFor(report, steps)),
                   false});
  }
  struct Action {
    bool wakes, leads, paged;
    double gain;
    const std::string* text;
  };
  std::vector<Action> actions;
  const auto has = [](const std::vector<uint32_t>& entries, uint32_t i) {
    return std::find(entries.begin(), entries.end(), i) != entries.end();
  };
  for (uint32_t i = 0; i < report.stragglers.size(); ++i) {
    const StragglerRow& s = report.stragglers[i];
    if (!s.action.empty())
      actions.push_back({first.wakes == i, has(first.entries, i), has(first.paged, i),
                         std::max(s.gain_ns_per_step.value_or(0), s.lost_ns_per_step), &s.action});
  }
  for (const SharedLossRow& s : report.shared_losses) {
    const bool leads = &s == first.shared;
    if (leads || s.share_of_step >= kActOn)
      actions.push_back({false, leads, leads, s.lost_ns_per_step, &s.action});
  }
  std::stable_sort(actions.begin(), actions.end(), [](const Action& a, const Action& b) {
    return std::tuple(a.wakes, a.leads, a.paged, a.gain) > std::tuple(b.wakes, b.leads, b.paged, b.gain);
  });
  const bool all_wait = first.urgency == Urgency::kNobody || first.urgency == Urgency::kNobodyYet;
  for (const Action& action : actions) out.push_back({*action.text, all_wait || !action.paged});
  return out;
}

}  // namespace lockstep::report
