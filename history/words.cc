#include "history/words.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/number_runs.h"

namespace lockstep::history {
namespace {

constexpr size_t kShownHosts = 4;

std::string ThreeDigits(double value, const char* unit) {
  const double size = std::abs(value);
  const int decimals = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return absl::StrFormat("%.*f %s", decimals, value, unit);
}

std::vector<std::string> HostsOf(const Finding& finding) {
  std::vector<std::string> hosts;
  for (const FindingRank& rank : finding.ranks) {
    if (!rank.host.empty() && std::find(hosts.begin(), hosts.end(), rank.host) == hosts.end())
      hosts.push_back(rank.host);
  }
  return hosts;
}

}  // namespace

std::string LengthWords(double ns) {
  const double size = std::abs(ns);
  if (size >= 999.5e6) return ThreeDigits(ns * 1e-9, "s");
  if (size >= 999.5e3) return ThreeDigits(ns * 1e-6, "ms");
  if (size >= 999.5) return ThreeDigits(ns * 1e-3, "us");
  return absl::StrFormat("%.0f ns", ns);
}

std::string TimeWords(JobTime time) {
  return absl::FormatTime("%Y-%m-%d %H:%M", absl::FromUnixNanos(time.ns()), absl::UTCTimeZone());
}

std::string ShiftWords(double before, double after) {
  if (before == 0) return after == 0 ? "+0.0%" : "from 0";
  return absl::StrFormat("%+.1f%%", 100 * (after - before) / std::abs(before));
}

std::string FindingWords(const Finding& finding) {
  std::vector<int32_t> ranks;
  for (const FindingRank& rank : finding.ranks) ranks.push_back(rank.rank.value());
  std::vector<std::string> hosts = HostsOf(finding);
  if (hosts.size() > kShownHosts) {
    const size_t more = hosts.size() - kShownHosts;
    hosts.resize(kShownHosts);
    hosts.push_back(absl::StrCat("and ", more, " more"));
  }
  const std::string at = hosts.empty() ? "" : absl::StrCat(" (", absl::StrJoin(hosts, ", "), ")");
  if (ranks.empty()) return absl::StrCat(finding.kind, finding.cause.empty() ? "" : ", ", finding.cause);
  return absl::StrCat(finding.kind, finding.kind == "rank" ? " " : " of ranks ", NumberRuns(ranks, 3), at,
                      ", ", finding.cause);
}

std::string LabelWords(const std::vector<Label>& labels) {
  return absl::StrJoin(labels, " ", [](std::string* out, const Label& label) {
    absl::StrAppend(out, label.name, "=", label.value);
  });
}

std::string CountWords(size_t count, const char* one, const char* many) {
  return absl::StrCat(count, " ", count == 1 ? one : many);
}

}  // namespace lockstep::history
