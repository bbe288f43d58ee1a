#include "report/row_words.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "analysis/explain/causes.h"
#include "analysis/explain/diagnosis.h"
#include "report/text_layout.h"

namespace lockstep::report {

using analysis::LengthText;

const RankRow* RankRowOf(const Report& report, RankId rank) {
  const auto row = std::find_if(report.ranks.begin(), report.ranks.end(),
                                [&](const RankRow& r) { return r.rank == rank; });
  return row == report.ranks.end() ? nullptr : &*row;
}

std::string StragglerName(const Report& report, const StragglerRow& s) {
  if (s.kind == "data") {
    const std::string what = s.cause == "expert_imbalance" ? "experts" : "data";
    return s.ranks.empty() ? "the " + what : what + " of " + RankList(s.ranks, 3);
  }
  if (s.kind == "job")
    return s.ranks.empty() || s.ranks.size() == report.ranks.size()
               ? "all ranks"
               : RankList(s.ranks, 3) + (s.cause == "host_pause" ? " in turn" : "");
  if (s.kind == "host" && s.hosts.size() == 1)
    return absl::StrFormat("host %s (%d ranks)", s.hosts[0], s.ranks.size());
  if (s.kind == "stage") return "the stage of " + RankList(s.ranks, 3);
  std::string name = RankList(s.ranks, 3);
  if (s.kind == "group" && s.ranks.size() > 1)
    return (s.verdict == "undecided" ? "one of " : "group of ") + name;
  if (s.ranks.size() == 1) {
    if (const RankRow* row = RankRowOf(report, s.ranks[0]))
      name += absl::StrFormat(" (%sGPU %d)", s.hosts.empty() ? "" : row->host + " ", row->device);
  }
  return name;
}

std::string GainText(const Report& report, double gain, const std::optional<Range>& interval) {
  std::string text = LengthText(gain);
  if (report.slowdown.step_ns && *report.slowdown.step_ns > 0)
    text += " (" + Percent(gain / *report.slowdown.step_ns) + ")";
  if (interval) text += absl::StrFormat(" [%s, %s]", LengthText(interval->low), LengthText(interval->high));
  return text;
}

std::string GpuHoursText(const Report& report, double lost) {
  const double step = report.slowdown.step_ns.value_or(0);
  if (step <= 0 || report.steps.size() < analysis::kLeastSteps || !report.capture.missing_ranks.empty())
    return "";
  const double hours = 24.0 * static_cast<double>(report.ranks.size()) * lost / step;
  if (hours < 1) return "";
  return absl::StrFormat(" = %.0f GPU-hour%s a day", hours, hours < 1.5 ? "" : "s");
}

std::string SharedLossInWords(const std::string& kind) {
  static constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"input", "data loader"},
      {"host_launch", "late launches"},
      {"exposed_transfer", "communication that nothing hides"},
      {"exposed_wait", "ranks wait in turns"},
      {"pipeline_bubble", "pipeline bubble"},
      {"copies", "copies that nothing hides"},
      {"idle_other", "idle GPUs"}};
  for (const auto& [name, words] : kWords) {
    if (name == kind) return std::string(words);
  }
  return kind;
}

}  // namespace lockstep::report
