#include "cli/common/values.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/settings/duration.h"
#include "base/settings/nearest_word.h"

namespace lockstep::cli {
namespace {

struct Activity {
  const char* name;
  RequestedActivities bits;
};
// The bits of ring::Activities and v1::FrameworkActivity in the protocol.
constexpr Activity kActivities[] = {
    {"kernel", {1u << 0}},        {"memcpy", {1u << 1}},      {"memset", {1u << 2}},
    {"runtime", {1u << 3}},       {"driver", {1u << 4}},      {"sync", {1u << 5}},
    {"nvtx", {1u << 6}},          {"nccl", {1u << 7}},        {"memory", {1u << 8}},
    {"nccl-channels", {1u << 9}}, {"nccl-proxy", {1u << 10}}, {"cpu_op", {0, 1u << 0}},
    {"python", {0, 1u << 1}},     {"modules", {0, 1u << 2}},  {"shapes", {0, 1u << 3}}};

}  // namespace

absl::StatusOr<std::vector<int32_t>> ParseRanks(const std::string& text) {
  std::vector<int32_t> ranks;
  const auto refuse = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not a list of ranks: write it as 0-7,12"));
  };
  constexpr int32_t kMostRanks = 1 << 20;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ','))) {
    const std::vector<std::string> ends = absl::StrSplit(part, absl::MaxSplits('-', 1));
    int32_t first = 0, last = 0;
    if (!absl::SimpleAtoi(ends[0], &first) || first < 0) return refuse();
    last = first;
    if (ends.size() == 2 && !absl::SimpleAtoi(ends[1], &last)) return refuse();
    if (last < first || last >= kMostRanks) return refuse();
    // Repeated ranges count too, so that a short text cannot take all memory.
    if (ranks.size() + static_cast<size_t>(last - first) >= kMostRanks) return refuse();
    for (int32_t rank = first; rank <= last; ++rank) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::vector<std::string> ActivityNames() {
  std::vector<std::string> names;
  for (const Activity& a : kActivities) names.emplace_back(a.name);
  return names;
}

absl::StatusOr<RequestedActivities> ParseActivities(const std::string& text) {
  RequestedActivities asked;
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(text, ','))) {
    const auto* found = std::find_if(std::begin(kActivities), std::end(kActivities),
                                     [&](const Activity& a) { return name == a.name; });
    if (found == std::end(kActivities)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", name, "\" is an unknown activity: choose from ", kAllActivities, ",", kMoreActivities,
          ", and of PyTorch jobs cpu_op,python,modules,shapes", settings::DidYouMean(name, ActivityNames())));
    }
    asked.recorded |= found->bits.recorded;
    asked.framework |= found->bits.framework;
  }
  return asked;
}

absl::StatusOr<JobTime> ParseStartAt(const std::string& text, JobTime now) {
  if (text.substr(0, 1) == "+") {
    auto after = settings::ParseDuration(text.substr(1), settings::kFlagDuration);
    if (!after.ok()) return after.status();
    return now + *after;
  }
  absl::Time time;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, text, &time, &error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not a start time: write it as +500ms or 2026-03-01T12:00:00Z"));
  }
  return JobTime(absl::ToUnixNanos(time));
}

std::string FormatDuration(Nanos length) {
  if (length < Nanos::Millis(1)) return absl::StrFormat("%.3g us", static_cast<double>(length.ns()) * 1e-3);
  if (length < Nanos::Seconds(1)) return absl::StrFormat("%.3g ms", length.millis());
  return absl::StrFormat("%.4g s", length.seconds());
}

}  // namespace lockstep::cli
