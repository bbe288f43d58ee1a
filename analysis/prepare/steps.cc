#include "analysis/prepare/steps.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "analysis/prepare/stats.h"
#include "analysis/prepare/step_marks.h"
#include "analysis/prepare/unfinished_steps.h"

namespace lockstep::analysis {
namespace {

constexpr size_t kStepsToSpare = 3;
// Communication that ends this soon after a step's end still belongs to that step.
constexpr Nanos kEndsWith = Nanos::Micros(20);

// Without launch records, work across a step's end belongs to the step that contains most of it.
// Communication may be posted long before, so it belongs to the step in which it ends.
HostTime PlaceWithoutLaunch(const capture::DeviceActivity& a) {
  const Nanos length = a.end - a.start;
  return a.communication ? a.end - std::min(length / 10, kEndsWith) : a.start + length / 2;
}

bool NumbersAreNames(const std::vector<std::vector<StepMark>>& seen) {
  for (const auto& rank : seen) {
    for (size_t i = 0; i < rank.size(); ++i) {
      if (!rank[i].number || (i > 0 && *rank[i].number <= *rank[i - 1].number)) return false;
    }
  }
  return true;
}

class StepFinder {
 public:
  StepFinder(const capture::Capture& capture, const capture::ClockModel& clock,
             const std::vector<CallIndex>& calls)
      : capture_(capture),
        clock_(clock),
        calls_(calls),
        seen_(capture.ranks.size()),
        raw_(capture.ranks.size()) {}

  Steps Run() {
    Use(StepsFromStepRanges(capture_), StepSource::kRanges);
    if (out_.names.empty()) Use(StepsFromNamedRanges(capture_, calls_), StepSource::kNamedRanges);
    if (out_.names.empty()) Use(StepsFromPeriod(capture_, clock_, calls_), StepSource::kPeriod);
    if (out_.names.empty()) UseWindow();
    return std::move(out_);
  }

 private:
  void Use(std::optional<MarkedSteps> marked, StepSource source) {
    if (!marked) return;
    out_ = Steps{};
    seen_ = std::move(marked->of_rank);
    for (auto& raw : raw_) raw.clear();
    for (size_t r = 0; r < capture_.ranks.size(); ++r) Assign(r);
    UseCommonSteps();
    out_.source = source;
    out_.how = std::move(marked->how);
  }

  void Assign(size_t r) {
    const capture::RankData& rank = capture_.ranks[r];
    raw_[r].reserve(rank.activities.size());
    std::vector<HostTime> launched;
    if (!rank.api_calls.empty()) launched = LaunchTimes(rank, calls_[r]);
    for (size_t i = 0; i < rank.activities.size(); ++i) {
      const HostTime at = launched.empty() ? PlaceWithoutLaunch(rank.activities[i]) : launched[i];
      const int32_t step = LastStarted(seen_[r], at);
      raw_[r].push_back(step);
      if (step >= 0) ++seen_[r][static_cast<size_t>(step)].activities;
    }
    if (seen_[r].size() < 3) return;
    std::vector<double> counts;
    for (const StepMark& s : seen_[r]) counts.push_back(s.activities);
    const double least = kStub * Median(counts);
    seen_[r].front().whole &= seen_[r].front().activities >= least;
    for (size_t k = FirstUnfinished(rank, calls_[r], seen_[r]); k < seen_[r].size(); ++k) {
      seen_[r][k].whole = false;
      seen_[r][k].unfinished = true;
    }
  }

  // Gives each step a name that is the same on all ranks, and selects the used steps.
  void UseCommonSteps() {
    std::map<int64_t, std::vector<uint32_t>> by_name;  // step -> index in seen_[r]
    const size_t n = capture_.ranks.size();
    const bool numbered = NumbersAreNames(seen_);
    const size_t reference = ReferenceRank();
    for (size_t r = 0; r < n; ++r) {
      for (uint32_t k = 0; k < seen_[r].size(); ++k) {
        const int64_t name = numbered ? *seen_[r][k].number : PlaceByTime(reference, r, k);
        if (numbered && capture_.wanted_steps && !capture_.wanted_steps->Holds(name)) continue;
        auto& places = by_name.try_emplace(name, n, capture::kNone).first->second;
        places[r] = k;
      }
    }
    out_.ranks.resize(n);
    std::vector<std::vector<int32_t>> used(n);
    for (size_t r = 0; r < n; ++r) used[r].assign(seen_[r].size(), kAfterSteps);
    // A missing step would break the chain of steps, so the longest run of whole steps is used.
    using Row = std::map<int64_t, std::vector<uint32_t>>::const_iterator;
    Row best_first = by_name.begin(), run_first = by_name.begin();
    size_t best_length = 0, run_length = 0;
    for (Row it = by_name.begin(); it != by_name.end(); ++it) {
      if (!Whole(it->second)) {
        run_length = 0;
        continue;
      }
      if (run_length++ == 0) run_first = it;
      if (run_length > best_length) {
        best_length = run_length;
        best_first = run_first;
      }
    }
    // The begin of a rank's first step is known only if an earlier record exists. A first step without one is
    // left out if enough steps remain: the time that its ranks spent before their first call is unknown.
    if (best_length > kStepsToSpare && !RecordedBefore(best_first->second)) {
      out_.begin_unknown = best_first->first;
      ++best_first;
      --best_length;
    }
    out_.partial = static_cast<uint32_t>(by_name.size() - best_length);
    Row it = best_first;
    for (; out_.names.size() < best_length; ++it) {
      out_.names.push_back(it->first);
      for (size_t r = 0; r < n; ++r) {
        RankStep step{.device_end = HostTime::Min()};
        if (!seen_[r].empty()) {
          used[r][it->second[r]] = static_cast<int32_t>(out_.names.size()) - 1;
          step.host = seen_[r][it->second[r]].host;
        }
        out_.ranks[r].steps.push_back(step);
      }
    }
    if (out_.names.empty()) return;
    for (; it != by_name.end(); ++it) {
      if (Unfinished(it->second)) out_.unfinished.push_back(it->first);
    }
    for (size_t r = 0; r < n; ++r) Number(r, used[r]);
  }

  bool Unfinished(const std::vector<uint32_t>& places) const {
    for (size_t r = 0; r < places.size(); ++r) {
      if (places[r] != capture::kNone && !seen_[r].empty() && seen_[r][places[r]].unfinished) return true;
    }
    return false;
  }

  bool Whole(const std::vector<uint32_t>& places) const {
    for (size_t r = 0; r < places.size(); ++r) {
      if (seen_[r].empty()) continue;
      if (places[r] == capture::kNone || !seen_[r][places[r]].whole) return false;
    }
    return true;
  }

  bool RecordedBefore(const std::vector<uint32_t>& places) const {
    for (size_t r = 0; r < places.size(); ++r) {
      if (seen_[r].empty()) continue;
      const HostTime begin = seen_[r][places[r]].host.start;
      const auto& calls = capture_.ranks[r].api_calls;
      if (!calls.empty() && calls.front().start >= begin) return false;
      if (calls.empty() && !capture_.ranks[r].activities.empty() &&
          capture_.ranks[r].activities.front().start >= begin)
        return false;
    }
    return true;
  }

  size_t ReferenceRank() const {
    size_t best = 0;
    for (size_t r = 1; r < seen_.size(); ++r) {
      if (seen_[r].size() > seen_[best].size()) best = r;
    }
    return best;
  }

  // If step numbers repeat, as in a trace replayed in a loop, time identifies the steps. Returns the index of
  // the reference rank's step that overlaps this one most.
  int64_t PlaceByTime(size_t reference, size_t r, uint32_t k) const {
    if (r == reference) return k;
    const auto on_job = [&](size_t rank, const HostInterval& i) {
      const uint32_t host = capture_.ranks[rank].host;
      return JobInterval{clock_.ToJob(host, i.start), clock_.ToJob(host, i.end)};
    };
    const JobInterval own = on_job(r, seen_[r][k].host);
    int64_t best = -1 - static_cast<int64_t>(k);
    Nanos most;
    for (size_t j = 0; j < seen_[reference].size(); ++j) {
      const JobInterval other = on_job(reference, seen_[reference][j].host);
      const Nanos common = std::min(own.end, other.end) - std::max(own.start, other.start);
      if (common > most) {
        most = common;
        best = static_cast<int64_t>(j);
      }
    }
    return best;
  }

  void Number(size_t r, const std::vector<int32_t>& used) {
    RankSteps& out = out_.ranks[r];
    size_t first_used = 0;
    while (first_used < used.size() && used[first_used] < 0) ++first_used;
    out.of_activity.reserve(raw_[r].size());
    const auto& activities = capture_.ranks[r].activities;
    for (size_t i = 0; i < raw_[r].size(); ++i) {
      const int32_t place = raw_[r][i];
      const bool before = place < 0 || static_cast<size_t>(place) < first_used;
      const int32_t step = before ? kBeforeSteps : used[static_cast<size_t>(place)];
      out.of_activity.push_back(step);
      if (step < 0) continue;
      RankStep& s = out.steps[static_cast<size_t>(step)];
      ++s.activities;
      s.device_end = std::max(s.device_end, activities[i].end);
    }
    for (RankStep& s : out.steps) {
      if (s.activities == 0) s.device_end = s.host.end;
    }
  }

  void UseWindow() {
    out_ = Steps{};
    out_.names = {0};
    out_.ranks.resize(capture_.ranks.size());
    for (size_t r = 0; r < capture_.ranks.size(); ++r) {
      const capture::RankData& rank = capture_.ranks[r];
      RankStep step{.host = rank.window,
                    .device_end = rank.window.start,
                    .activities = static_cast<uint32_t>(rank.activities.size())};
      if (!rank.activities.empty()) {
        if (step.host.end <= step.host.start)
          step.host = {rank.activities.front().start, rank.activities.front().end};
        step.device_end = rank.activities.front().end;
        for (const capture::DeviceActivity& a : rank.activities)
          step.device_end = std::max(step.device_end, a.end);
      }
      out_.ranks[r].steps = {step};
      out_.ranks[r].of_activity.assign(rank.activities.size(), 0);
    }
  }

  const capture::Capture& capture_;
  const capture::ClockModel& clock_;
  const std::vector<CallIndex>& calls_;
  std::vector<std::vector<StepMark>> seen_;
  std::vector<std::vector<int32_t>> raw_;  // by activity: index in seen_, or -1
  Steps out_;
};

}  // namespace

std::vector<std::optional<Nanos>> StepLateness(const capture::Capture& capture,
                                               const capture::ClockModel& clock, const Steps& steps) {
  const size_t n = capture.ranks.size();
  std::vector<std::optional<Nanos>> late(n);
  // Periods may begin with different launches on different ranks, so their begins are not comparable.
  if (!steps.marked()) return late;
  std::vector<std::vector<int64_t>> by_rank(n);
  for (size_t k = 0; k < steps.count(); ++k) {
    std::vector<JobTime> begin(n, JobTime::Max());
    for (size_t r = 0; r < n; ++r) {
      const HostInterval& host = steps.ranks[r].steps[k].host;
      if (host.end > host.start) begin[r] = clock.ToJob(capture.ranks[r].host, host.start);
    }
    const JobTime earliest = *std::min_element(begin.begin(), begin.end());
    for (size_t r = 0; r < n; ++r) {
      if (begin[r] != JobTime::Max()) by_rank[r].push_back((begin[r] - earliest).ns());
    }
  }
  for (size_t r = 0; r < n; ++r) {
    if (!by_rank[r].empty()) late[r] = Nanos(MedianInPlace(std::span(by_rank[r])));
  }
  return late;
}

Steps FindSteps(const capture::Capture& capture, const capture::ClockModel& clock,
                const std::vector<CallIndex>& calls) {
  return StepFinder(capture, clock, calls).Run();
}

std::vector<StepSpan> SpansOf(const capture::Capture& capture, const capture::ClockModel& clock,
                              const Steps& steps) {
  std::vector<StepSpan> spans;
  for (size_t s = 0; s < steps.count(); ++s) {
    StepSpan span{.name = steps.names[s], .start = JobTime::Max(), .end = JobTime::Min()};
    for (size_t r = 0; r < steps.ranks.size(); ++r) {
      const RankStep& step = steps.ranks[r].steps[s];
      span.start = std::min(span.start, clock.ToJob(capture.ranks[r].host, step.host.start));
      span.end =
          std::max(span.end, clock.ToJob(capture.ranks[r].host, std::max(step.host.end, step.device_end)));
    }
    if (span.start < span.end) spans.push_back(span);
  }
  return spans;
}

}  // namespace lockstep::analysis
