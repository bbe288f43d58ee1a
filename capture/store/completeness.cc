#include "capture/store/completeness.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "wire/columns/schema.h"

namespace lockstep::capture {
namespace {

using columns::Kind;

// Length of a window that may be missing at its ends.
Nanos Slack(Nanos requested) {
  constexpr Nanos kLeast = Nanos::Millis(20);
  constexpr int64_t kDivisor = 100;
  return std::max(kLeast, requested / kDivisor);
}

// Descriptions of the process and of its objects are written even if nothing happens in the window.
bool IsWork(Kind kind) {
  switch (kind) {
    case Kind::kString:
    case Kind::kClock:
    case Kind::kDevice:
    case Kind::kContext:
    case Kind::kStream:
    case Kind::kThreadName:
    case Kind::kCommunicator:
    case Kind::kOverhead:
      return false;
    default:
      return true;
  }
}

bool RecordedNothing(const RowCounts& rows) {
  for (size_t kind = 0; kind < rows.size(); ++kind) {
    if (rows[kind] > 0 && IsWork(static_cast<Kind>(kind))) return false;
  }
  return true;
}

std::string SecondsText(Nanos t) { return absl::StrFormat("%.3g s", t.seconds()); }

// Returns the time from the begin of the window to the end of the last record.
std::optional<Nanos> RecordedUntil(const RankData& data) {
  HostTime last = data.window.start;
  for (const DeviceActivity& a : data.activities) last = std::max(last, a.end);
  for (const ApiCall& call : data.api_calls) last = std::max(last, call.end);
  if (last == data.window.start) return std::nullopt;
  return last - data.window.start;
}

// Returns the part of the window that a process recorded which reached its end.
Nanos RecordedWindow(const ManifestProcess& process) {
  return std::max(process.window.length() - std::max(process.late, Nanos()), Nanos());
}

// Returns the reason by the process's end: it did not finish, or its window was cut short.
std::string ReasonOfEnd(const ManifestProcess& process, Nanos requested) {
  if (process.state != "done") {
    const std::string text = process.text.empty() ? "no reason was reported" : process.text;
    return process.state == "failed" ? text : absl::StrCat(process.state, ": ", text);
  }
  if (!process.cut.empty()) return process.cut;
  if (requested == Nanos() || process.via == "kineto") return "";
  const Nanos slack = Slack(requested);
  if (process.late > slack) return absl::StrCat("it began ", SecondsText(process.late), " late");
  return RecordedWindow(process) < requested - slack ? "its window was too short" : "";
}

}  // namespace

std::optional<IncompleteRank> CheckProcess(const ProcessRecords& records, Nanos requested,
                                           ManifestState manifest) {
  const ManifestProcess& process = records.process;
  std::vector<std::string> reasons;
  if (manifest != ManifestState::kFinal) {
    reasons.emplace_back(manifest == ManifestState::kOpen
                             ? "the aggregator ended before the capture did: missing records are not counted"
                             : "the capture has no manifest: missing records are not counted");
  } else if (std::string reason = ReasonOfEnd(process, requested); !reason.empty()) {
    reasons.push_back(std::move(reason));
  }
  const bool nothing = process.via != "kineto" && RecordedNothing(records.rows);
  if (const std::optional<Nanos> step = ClockStep(records.data.clocks)) {
    reasons.push_back(absl::StrCat("its host's clock was set ", *step < Nanos() ? "back" : "forward", " by ",
                                   SecondsText(*step < Nanos() ? -*step : *step), " during the capture"));
  }
  if (nothing) reasons.emplace_back("it recorded nothing in the window");
  if (records.damaged) reasons.emplace_back("some of its records on disk cannot be read");
  if (reasons.empty()) return std::nullopt;
  IncompleteRank entry{.rank = process.rank};
  for (const std::string& reason : reasons)
    absl::StrAppend(&entry.reason, entry.reason.empty() ? "" : "; ", reason);
  if (requested > Nanos()) entry.asked = requested;
  if (nothing) {
    entry.recorded = Nanos();
  } else if (process.state == "done" && manifest == ManifestState::kFinal) {
    entry.recorded = RecordedWindow(process);
  } else {
    entry.recorded = RecordedUntil(records.data);
  }
  if (entry.asked && entry.recorded) entry.recorded = std::min(*entry.recorded, *entry.asked);
  return entry;
}

std::optional<Nanos> ClockStep(const std::vector<ClockReading>& readings) {
  constexpr Nanos kNoise = Nanos::Millis(1);
  constexpr int64_t kSlewDivisor = 1000;  // twice the fastest slew
  // The readings come from a foreign process.
  std::vector<ClockReading> in_order = readings;
  std::erase_if(in_order, [&](const ClockReading& r) {
    return !IsTime(r.realtime.ns()) || !IsTime(r.monotonic.ns()) || !IsTime(r.gap.ns());
  });
  std::stable_sort(in_order.begin(), in_order.end(),
                   [](const ClockReading& a, const ClockReading& b) { return a.monotonic < b.monotonic; });
  std::optional<Nanos> largest;
  for (size_t i = 1; i < in_order.size(); ++i) {
    const ClockReading& a = in_order[i - 1];
    const ClockReading& b = in_order[i];
    const Nanos passed = b.monotonic - a.monotonic;
    const Nanos step = (b.realtime - a.realtime) - passed;
    const Nanos size = step < Nanos() ? -step : step;
    if (size <= kNoise + a.gap + b.gap + passed / kSlewDivisor) continue;
    if (!largest || size > (*largest < Nanos() ? -*largest : *largest)) largest = step;
  }
  return largest;
}

void AddIncomplete(IncompleteRank entry, std::vector<IncompleteRank>& all) {
  const auto at = std::lower_bound(all.begin(), all.end(), entry.rank,
                                   [](const IncompleteRank& e, RankId rank) { return e.rank < rank; });
  if (at == all.end() || at->rank != entry.rank) {
    all.insert(at, std::move(entry));
    return;
  }
  if (!absl::StrContains(at->reason, entry.reason)) absl::StrAppend(&at->reason, "; ", entry.reason);
  const auto least = [](std::optional<Nanos> a, std::optional<Nanos> b) {
    return a && b ? std::min(*a, *b) : std::optional<Nanos>();
  };
  at->recorded = least(at->recorded, entry.recorded);
  if (!at->asked) at->asked = entry.asked;
}

}  // namespace lockstep::capture
