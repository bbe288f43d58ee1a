#include "analysis/prepare/step_marks.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "analysis/prepare/stats.h"
#include "capture/model/step_ranges.h"

namespace lockstep::analysis {
namespace {

// A range that comes once per step comes at least this often, ...
constexpr size_t kLeastTimes = 3;
// ... holds nearly all launches between its first and its last, ...
constexpr double kHolds = 0.9;
// ... and at intervals that mostly differ from the usual one by at most this share.
constexpr double kRegular = 0.5;
constexpr double kMostly = 0.75;

std::optional<int64_t> NumberIn(std::string_view name) {
  size_t first = name.size();
  while (first > 0 && name[first - 1] >= '0' && name[first - 1] <= '9') --first;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data() + first, name.data() + name.size(), number);
  if (first == name.size() || error != std::errc()) return std::nullopt;
  return number;
}

std::vector<StepMark> StepRanges(const capture::Capture& capture, const capture::RankData& rank) {
  std::vector<StepMark> marks;
  for (const capture::HostRange& range : rank.ranges) {
    if (range.kind != capture::RangeKind::kStep || range.end <= range.start) continue;
    if (!marks.empty() && range.start < marks.back().host.end) {
      // Of nested or repeated marks of one step, the outer one counts.
      if (!capture::Follows(marks.back().host, {range.start, range.end})) continue;
      marks.back().host.end = range.start;
    }
    marks.push_back({.host = {range.start, range.end},
                     .number = NumberIn(capture.Text(range.name)),
                     .whole = !range.start_unknown && !range.end_unknown});
  }
  return marks;
}

std::string WithoutNumbers(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) {
      out.push_back(c);
    } else if (out.empty() || out.back() != '#') {
      out.push_back('#');
    }
  }
  return out;
}

// A rank's ranges of one name.
struct Named {
  std::vector<StepMark> marks;
  bool nested = false;  // one is inside another, so they are not one per step
};

bool Regular(const std::vector<StepMark>& marks) {
  std::vector<double> intervals;
  for (size_t i = 1; i < marks.size(); ++i)
    intervals.push_back(static_cast<double>((marks[i].host.start - marks[i - 1].host.start).ns()));
  const double usual = Median(intervals);
  const auto near = std::count_if(intervals.begin(), intervals.end(),
                                  [&](double x) { return std::fabs(x - usual) <= kRegular * usual; });
  return static_cast<double>(near) >= kMostly * static_cast<double>(intervals.size());
}

// Share of the launches between the first range's begin and the last one's end that lie in a range.
double Held(const std::vector<HostTime>& issued, const std::vector<StepMark>& marks) {
  size_t inside = 0, all = 0, m = 0;
  for (const HostTime t : issued) {
    if (t < marks.front().host.start || t >= marks.back().host.end) continue;
    ++all;
    while (m < marks.size() && marks[m].host.end <= t) ++m;
    inside += m < marks.size() && t >= marks[m].host.start ? 1 : 0;
  }
  return all == 0 ? 0 : static_cast<double>(inside) / static_cast<double>(all);
}

// The marks that may be steps, by name without numbers.
std::map<std::string, std::vector<StepMark>> Candidates(const capture::Capture& capture,
                                                        const capture::RankData& rank,
                                                        const CallIndex& calls) {
  std::map<NameId, std::string> bare;
  std::map<std::string, Named> named;
  for (const capture::HostRange& range : rank.ranges) {
    if (range.end <= range.start || range.kind == capture::RangeKind::kOperator) continue;
    const auto [it, fresh] = bare.try_emplace(range.name, "");
    if (fresh) it->second = WithoutNumbers(capture.Text(range.name));
    Named& n = named[it->second];
    n.nested |= !n.marks.empty() && range.start < n.marks.back().host.end;
    n.marks.push_back({.host = {range.start, range.end},
                       .number = NumberIn(capture.Text(range.name)),
                       .whole = !range.start_unknown && !range.end_unknown});
  }
  std::vector<HostTime> issued = LaunchTimes(rank, calls);
  std::sort(issued.begin(), issued.end());
  std::map<std::string, std::vector<StepMark>> out;
  for (auto& [name, n] : named) {
    if (n.nested || n.marks.size() < kLeastTimes || name.empty() || !Regular(n.marks) ||
        Held(issued, n.marks) < kHolds)
      continue;
    out.emplace(name, std::move(n.marks));
  }
  return out;
}

}  // namespace

int32_t LastStarted(const std::vector<StepMark>& marks, HostTime t) {
  const auto after = std::upper_bound(marks.begin(), marks.end(), t,
                                      [](HostTime at, const StepMark& m) { return at < m.host.start; });
  return static_cast<int32_t>(after - marks.begin()) - 1;
}

std::optional<MarkedSteps> StepsFromStepRanges(const capture::Capture& capture) {
  MarkedSteps out;
  for (const capture::RankData& rank : capture.ranks) {
    out.of_rank.push_back(StepRanges(capture, rank));
    if (out.of_rank.back().empty() && !rank.activities.empty()) return std::nullopt;
  }
  if (capture.ranks.empty()) return std::nullopt;
  return out;
}

std::optional<MarkedSteps> StepsFromNamedRanges(const capture::Capture& capture,
                                                const std::vector<CallIndex>& calls) {
  std::vector<std::map<std::string, std::vector<StepMark>>> of_rank;
  std::map<std::string, std::pair<size_t, Nanos>>
      everywhere;  // number of ranks with it, and sum of its mean lengths
  size_t active = 0;
  for (size_t r = 0; r < capture.ranks.size(); ++r) {
    of_rank.emplace_back();
    if (capture.ranks[r].activities.empty()) continue;
    ++active;
    of_rank.back() = Candidates(capture, capture.ranks[r], calls[r]);
    for (const auto& [name, marks] : of_rank.back()) {
      auto& [ranks, length] = everywhere[name];
      ++ranks;
      length += (marks.back().host.end - marks.front().host.start) / static_cast<int64_t>(marks.size());
    }
  }
  const std::string* best = nullptr;
  Nanos longest;
  for (const auto& [name, use] : everywhere) {
    if (use.first < active || use.second <= longest) continue;
    longest = use.second;
    best = &name;
  }
  if (best == nullptr) return std::nullopt;
  MarkedSteps out;
  for (auto& names : of_rank)
    out.of_rank.push_back(names.empty() ? std::vector<StepMark>() : std::move(names[*best]));
  out.how = absl::StrFormat(
      "no range is named like a step: the ranges named \"%s\" mark the steps, because they follow one "
      "another on every rank",
      *best);
  return out;
}

}  // namespace lockstep::analysis
