#include "analysis/notice/job_notices.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/median.h"

namespace lockstep::analysis {
namespace {

constexpr double kMany = 1024;  // steps of an exponential mean
// A step that is longer than so many usual ones is an evaluation or a checkpoint.
constexpr double kLongStep = 4;
constexpr Nanos kLongestStep = Nanos::Seconds(7 * 86'400);

// With two ranks, the faster one is the measure.
int64_t LowerMedian(std::vector<int64_t> values) {
  const size_t middle = (values.size() - 1) / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(middle), values.end());
  return values[middle];
}

}  // namespace

void JobNotices::Add(const RankStepTime& step, MonoTime now) {
  if (step.communication < Nanos() || step.communication > step.duration || step.duration > kLongestStep)
    return;
  if (!begun_) {
    begun_ = now;
    period_ = step.period;
  }
  Member& member = members_[step.rank];
  if (member.process != step.process) {
    Forget(step.rank);
    member = {.process = step.process};
  }
  const bool back = member.number > step.number && member.number - step.number > kRestarted;
  if (member.period != step.period || back || step.number > member.number) member.number = step.number;
  member.period = step.period;
  if (step.period != period_ || IsPast(step.number)) return;
  PendingStep& pending = pending_[step.number];
  if (pending.ranks.empty()) pending.first = now;
  if (pending.ranks.insert_or_assign(step.rank, Times{step.duration, step.duration - step.communication})
          .second)
    ++pending_rows_;
}

void JobNotices::Forget(RankId rank) {
  const auto found = drifts_.find(rank);
  if (found == drifts_.end()) return;
  if (found->second.grown()) ended_.push_back(rank);
  drifts_.erase(found);
}

void JobNotices::CheckRestart(News& news) {
  std::map<uint64_t, size_t> periods;
  size_t back = 0;
  for (const auto& [rank, member] : members_) {
    ++periods[member.period];
    if (member.period == period_ && IsPast(member.number) && *last_ - member.number > kRestarted) ++back;
  }
  uint64_t period = period_;
  for (const auto& [one, ranks] : periods) {
    if (ranks * 2 > members_.size()) period = one;
  }
  if (period == period_ && back * 2 <= members_.size()) return;
  for (const auto& [rank, drift] : drifts_) {
    if (drift.grown()) news.ended.push_back(rank);
  }
  std::map<RankId, Member> members = std::move(members_);
  const std::optional<MonoTime> begun = begun_;
  *this = JobNotices();
  members_ = std::move(members);
  begun_ = begun;
  period_ = period;
}

JobNotices::News JobNotices::Compare(MonoTime now) {
  News news{.slower = {}, .ended = std::exchange(ended_, {})};
  CheckRestart(news);
  if (!begun_ || now - *begun_ < kFirstWait) return news;
  while (!pending_.empty()) {
    const auto& [number, step] = *pending_.begin();
    const bool complete =
        std::all_of(members_.begin(), members_.end(), [&, number = number](const auto& member) {
          return member.second.period != period_ || member.second.number >= number;
        });
    const bool late = now - step.first >= kLate || pending_rows_ > kMostPending;
    if (!complete && !late) break;
    // A few ranks alone do not show where the job is.
    if (step.ranks.size() * 2 > members_.size()) {
      if (!complete)
        std::erase_if(members_, [&, number = number](const auto& m) { return m.second.number < number; });
      CompareStep(number, step, news);
    }
    pending_rows_ -= step.ranks.size();
    pending_.erase(pending_.begin());
  }
  return news;
}

void JobNotices::CompareStep(uint64_t number, const PendingStep& step, News& news) {
  last_ = number;
  ranks_ = step.ranks.size();
  if (ranks_ < 2) return;  // there is nothing to compare with
  std::vector<int64_t> durations, owns;
  for (const auto& [rank, times] : step.ranks) {
    durations.push_back(times.duration.ns());
    owns.push_back(times.own.ns());
  }
  const Nanos length(LowerMedian(std::move(durations)));
  recent_.push_back({number, step.first, length});
  if (recent_.size() > kRecent) recent_.pop_front();
  LearnLength(length);
  if (++compared_ <= kFirstSteps) return;
  const Nanos own(LowerMedian(std::move(owns)));
  for (const auto& [rank, times] : step.ranks) CompareRank(rank, times.own, own, length, news);
  if (drifts_.size() <= 2 * members_.size()) return;
  // Ranks that have left are forgotten late, because they may come back.
  std::vector<RankId> gone;
  for (const auto& [rank, drift] : drifts_) {
    if (!members_.contains(rank)) gone.push_back(rank);
  }
  for (const RankId rank : gone) Forget(rank);
}

void JobNotices::LearnLength(Nanos length) {
  const auto ns = static_cast<double>(length.ns());
  if (usual_length_ns_ == 0) usual_length_ns_ = ns;
  const double steps = std::min(static_cast<double>(compared_ + 1), kMany);
  usual_length_ns_ += (std::min(ns, kLongStep * usual_length_ns_) - usual_length_ns_) / steps;
}

void JobNotices::CompareRank(RankId rank, Nanos time, Nanos own, Nanos length, News& news) {
  Drift& drift = drifts_[rank];
  const bool was_slow = drift.grown();
  const auto unit = static_cast<double>(std::max<int64_t>(length.ns(), 1));
  if (const std::optional<Drift::Alarm> alarm = drift.Add(static_cast<double>((time - own).ns()) / unit)) {
    const double longer_ns = (drift.usual() + alarm->growth) * unit - drift.usual() * usual_length_ns_;
    if (longer_ns > alarm->growth * unit / 2) {
      news.slower.push_back(Describe(rank, drift, *alarm, own, length));
    } else {
      // The same time is a larger share, because all steps have become shorter.
      drift = Drift();
    }
  }
  if (was_slow && !drift.grown()) news.ended.push_back(rank);
}

SlowRank JobNotices::Describe(RankId rank, const Drift& drift, const Drift::Alarm& alarm, Nanos own,
                              Nanos length) const {
  const auto unit = static_cast<double>(length.ns());
  const size_t slow = std::min<size_t>(alarm.values, recent_.size());
  const size_t before = recent_.size() - slow;
  const Recent& first = recent_[before];
  SlowRank found{.rank = rank, .since_step = first.number, .noticed_step = *last_, .since = first.at};
  found.own_before = own + Nanos(static_cast<int64_t>(drift.usual() * unit));
  found.own_now = found.own_before + Nanos(static_cast<int64_t>(alarm.growth * unit));
  std::vector<int64_t> now;
  for (size_t i = before; i < recent_.size(); ++i) now.push_back(recent_[i].duration.ns());
  found.step_now = Nanos(MedianInPlace(std::span(now)));
  found.step_before = before == 0 ? found.step_now : Typical(before);
  return found;
}

Nanos JobNotices::Typical(size_t count) const {
  if (count == 0) return Nanos();
  std::vector<int64_t> durations;
  for (size_t i = count < kTypical ? 0 : count - kTypical; i < count; ++i)
    durations.push_back(recent_[i].duration.ns());
  return Nanos(MedianInPlace(std::span(durations)));
}

}  // namespace lockstep::analysis
