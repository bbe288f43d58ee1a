#include "analysis/prepare/unfinished_steps.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "analysis/prepare/stats.h"

namespace lockstep::analysis {
namespace {

// A call launches work if at least this share of the calls of its name has an activity.
constexpr double kLaunches = 0.5;
// The share of launches without an activity that still counts as whole, beyond what the other steps lack.
constexpr double kSlack = 0.01;

struct Launches {
  double all = 0, lacking = 0;
  double Share() const { return all > 0 ? lacking / all : 0; }
};

std::vector<bool> CallsWithWork(const capture::RankData& rank, const CallIndex& calls) {
  std::vector<bool> with_work(rank.api_calls.size());
  for (const capture::DeviceActivity& a : rank.activities) {
    if (const uint32_t call = calls.Of(a.correlation); call != capture::kNone) with_work[call] = true;
  }
  return with_work;
}

// The names of the calls that launch work. Calls after the last one with work do not count, because the
// window may have ended before all of theirs.
absl::flat_hash_map<NameId, bool> LaunchingNames(const capture::RankData& rank,
                                                 const std::vector<bool>& with_work) {
  size_t end = with_work.size();
  while (end > 0 && !with_work[end - 1]) --end;
  absl::flat_hash_map<NameId, Launches> seen;
  for (size_t i = 0; i < end; ++i) {
    Launches& name = seen[rank.api_calls[i].name];
    ++name.all;
    name.lacking += with_work[i] ? 0 : 1;
  }
  absl::flat_hash_map<NameId, bool> launching;
  for (const auto& [name, launches] : seen) launching[name] = launches.Share() <= 1 - kLaunches;
  return launching;
}

std::vector<Launches> LaunchesOf(const capture::RankData& rank, const CallIndex& calls,
                                 const std::vector<StepMark>& marks) {
  const std::vector<bool> with_work = CallsWithWork(rank, calls);
  const absl::flat_hash_map<NameId, bool> launching = LaunchingNames(rank, with_work);
  std::vector<Launches> out(marks.size());
  for (size_t i = 0; i < with_work.size(); ++i) {
    const auto name = launching.find(rank.api_calls[i].name);
    if (name == launching.end() || !name->second) continue;
    const int32_t step = LastStarted(marks, rank.api_calls[i].start);
    if (step < 0) continue;
    Launches& launches = out[static_cast<size_t>(step)];
    ++launches.all;
    launches.lacking += with_work[i] ? 0 : 1;
  }
  return out;
}

// A step with fewer activities is a stub.
double LeastActivities(const std::vector<StepMark>& marks) {
  std::vector<double> counts;
  for (const StepMark& mark : marks) {
    if (mark.activities > 0) counts.push_back(mark.activities);
  }
  return counts.empty() ? 0 : kStub * Median(counts);
}

}  // namespace

size_t FirstUnfinished(const capture::RankData& rank, const CallIndex& calls,
                       const std::vector<StepMark>& marks) {
  const double least = LeastActivities(marks);
  const std::vector<Launches> launches = LaunchesOf(rank, calls, marks);
  std::vector<double> shares;
  for (const Launches& l : launches) shares.push_back(l.Share());
  std::sort(shares.begin(), shares.end());
  // Up to three quarters of the steps may be unfinished, so the usual loss is that of the best quarter.
  const double usual = shares.empty() ? 0 : shares[shares.size() / 4];
  size_t first = marks.size();
  for (; first > 0; --first) {
    const Launches& l = launches[first - 1];
    const double lost = usual * l.all;
    // Lost records are counted like rare events, whose deviation is the root of their number.
    const bool lacks = l.lacking > lost + kSlack * l.all + 2 * std::sqrt(lost + 1);
    if (marks[first - 1].activities >= least && !lacks) break;
  }
  return first;
}

}  // namespace lockstep::analysis
