#include "report/text/text_waiting.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "analysis/explain/causes.h"
#include "analysis/explain/diagnosis.h"
#include "report/text_layout.h"

namespace lockstep::report {
namespace {

using analysis::LengthText;
using enum Priority;

// A rank is mentioned if its share of all waiting is at least this.
constexpr double kNotableShare = 0.02;
// A further rank has a line if others waited for it at least this fraction of the waiting for the first rank.
constexpr double kLeastShareOfFirst = 0.25;
constexpr size_t kMostWaitedFor = 3;
constexpr Nanos kNotableLateness = Nanos::Micros(100);

bool IsNamed(const Report& report, RankId rank) {
  return std::any_of(report.stragglers.begin(), report.stragglers.end(), [&](const StragglerRow& s) {
    return std::find(s.ranks.begin(), s.ranks.end(), rank) != s.ranks.end();
  });
}

// Prints the waiting that a typical job would not have, by the rank that caused it, directly or through
// others.
void DelayCosts(const Report& report, const WaitingRow& w, TextPage& page) {
  // Ranks that all take part in a slow transfer do not wait.
  const bool links =
      std::any_of(report.stragglers.begin(), report.stragglers.end(),
                  [](const StragglerRow& s) { return s.cause == "slow_link" || s.cause == "congestion"; });
  for (size_t i = 0; i < w.causers.size() && i < kMostWaitedFor; ++i) {
    const WaitingCauserRow& c = w.causers[i];
    if (c.victims == 0) continue;
    // A slow transfer delays all its members. Those that are not named would look like culprits.
    if (links && !IsNamed(report, c.rank)) continue;
    const double total = c.direct_ns_per_step + c.passed_on_ns_per_step;
    // Ranks that cause similar waiting are listed together. Far less waiting than the first rank's is noise.
    if (i > 0 &&
        total < kLeastShareOfFirst * (w.causers[0].direct_ns_per_step + w.causers[0].passed_on_ns_per_step))
      break;
    std::string line = absl::StrFormat("WAITING%s %d rank%s waited for rank %d",
                                       links ? " (slow transfers not counted)" : "", c.victims,
                                       c.victims == 1 ? "" : "s", c.rank.value());
    if (c.mean_wait_ns_per_step)
      line += absl::StrFormat(": mean %s per waiting rank and step", LengthText(*c.mean_wait_ns_per_step));
    line += absl::StrFormat(" (%s of all such waiting); direct %s, passed on %s",
                            Percent(total / w.waited_ns_per_step), Percent(c.direct_ns_per_step / total),
                            Percent(c.passed_on_ns_per_step / total));
    if (!c.path.empty()) line += "; path " + c.path;
    page.AddParagraph(i == 0 ? kUseful : kAside, line, 2, Tone::kTitle);
  }
}

// Without delay costs, prints the waiting that each rank caused by coming last.
void CausedWaits(const Report& report, TextPage& page) {
  std::vector<const RankRow*> order;
  Nanos all;
  for (const RankRow& r : report.ranks) {
    all += r.caused_wait;
    order.push_back(&r);
  }
  if (all <= Nanos() || report.ranks.size() < 2) return;
  // All other ranks count as waiting.
  const double waits =
      std::max(1.0, static_cast<double>(report.capture.steps)) * static_cast<double>(report.ranks.size() - 1);
  std::stable_sort(order.begin(), order.end(),
                   [](const RankRow* a, const RankRow* b) { return a->caused_wait > b->caused_wait; });
  std::string line = "WAITING the others waited for";
  for (size_t i = 0; i < order.size() && i < kMostWaitedFor; ++i) {
    const double share = static_cast<double>(order[i]->caused_wait.ns()) / static_cast<double>(all.ns());
    if (i > 0 && share < kNotableShare) break;
    line +=
        absl::StrFormat("%s rank %d: mean %s (%s)", i > 0 ? "," : "", order[i]->rank.value(),
                        LengthText(static_cast<double>(order[i]->caused_wait.ns()) / waits), Percent(share));
  }
  line += ", per waiting rank and step";
  page.AddParagraph(kUseful, line, 2, Tone::kTitle);
}

void Lateness(const Report& report, TextPage& page) {
  const RankRow* late = nullptr;
  for (const RankRow& r : report.ranks) {
    if (r.late_from_before && (late == nullptr || *r.late_from_before > *late->late_from_before)) late = &r;
  }
  const bool too_few = report.capture.steps < analysis::kLeastSteps;
  if (late != nullptr && too_few && *late->late_from_before > kNotableLateness) {
    std::string clock;
    if (report.capture.clock.bound && *report.capture.clock.bound > *late->late_from_before)
      clock = " (within clock error)";
    page.AddParagraph(
        kImportant,
        absl::StrFormat("LATE rank %d came %s late from before the window, cause unknown: what it did "
                        "before is not in the capture%s",
                        late->rank.value(), Text(*late->late_from_before), clock),
        2, Tone::kTitle);
  }
}

}  // namespace

void AddWaiting(const Report& report, TextPage& page) {
  if (report.waiting && !report.waiting->causers.empty() && report.capture.steps >= analysis::kLeastSteps) {
    DelayCosts(report, *report.waiting, page);
  } else {
    CausedWaits(report, page);
  }
  Lateness(report, page);
}

}  // namespace lockstep::report
