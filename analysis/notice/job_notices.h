// JobNotices follows the training steps of one job while it runs, and notices ranks that become slower than
// they were, compared with the others in the same steps.
//
// Of each rank and step it takes the rank's own time: the part of the step without communication. A rank
// waits for a slower one in its communication, so only the slower one's own time grows. The difference to the
// median of all ranks in the same step goes to a Drift per rank, as a share of a step. What slows all ranks
// alike, as longer inputs do, is not a slowdown of a rank.
//
// One thread at a time.
#ifndef LOCKSTEP_ANALYSIS_NOTICE_JOB_NOTICES_H_
#define LOCKSTEP_ANALYSIS_NOTICE_JOB_NOTICES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "analysis/notice/drift.h"
#include "base/ids.h"
#include "base/time.h"

namespace lockstep::analysis {

struct RankStepTime {
  RankId rank;
  // Identifies the process. Another one of the same rank is compared with itself only.
  uint64_t process = 0;
  // Equal for all ranks in the same step. Steps of different periods are not comparable.
  uint64_t number = 0;
  uint64_t period = 0;
  Nanos duration;
  Nanos communication;
};

// A rank that has become slower.
struct SlowRank {
  RankId rank;
  // The first slow step, at most 256 steps ago, and the one at which it was noticed.
  uint64_t since_step = 0;
  uint64_t noticed_step = 0;
  // The rank's own time per step, as it was and as it is.
  Nanos own_before, own_now;
  // The job's time per step. Both are equal if no step before is known any more.
  Nanos step_before, step_now;
  // The first arrival of a rank's part of the first slow step.
  MonoTime since;
};

class JobNotices {
 public:
  struct News {
    std::vector<SlowRank> slower;
    // Slow ranks that are as before, or that cannot be compared any more, because they have left or the steps
    // are others.
    std::vector<RankId> ended;
  };

  // Adds a step of a rank, which arrives at `now`. A step with impossible times is ignored.
  void Add(const RankStepTime& step, MonoTime now);
  // Compares the steps that are complete, and returns what they show. A step is complete if each rank has
  // sent it or a later one. Call it after each message, and about once per second, because ranks may end.
  News Compare(MonoTime now);

  // The newest compared step, and the number of compared ones.
  uint64_t last_step() const { return last_.value_or(0); }
  uint64_t compared() const { return compared_; }
  // The number of ranks in the newest compared step.
  size_t ranks() const { return ranks_; }
  // The median of the last steps; 0: none was compared yet.
  Nanos step_time() const { return Typical(recent_.size()); }

 private:
  // The first steps have compilation and empty caches.
  static constexpr uint64_t kFirstSteps = 10;
  // Other nodes may send their first steps so much later.
  static constexpr Nanos kFirstWait = Nanos::Seconds(10);
  // A step is compared without the ranks that have not sent it for so long.
  static constexpr Nanos kLate = Nanos::Seconds(15);
  // Of all ranks together.
  static constexpr size_t kMostPending = size_t{1} << 18;
  static constexpr size_t kRecent = 256;
  static constexpr size_t kTypical = 64;
  // A job that was restarted from a checkpoint counts from an earlier number.
  static constexpr uint64_t kRestarted = 256;

  struct Times {
    Nanos duration, own;
  };
  struct PendingStep {
    MonoTime first;  // arrival
    std::map<RankId, Times> ranks;
  };
  // Of the last step that a rank sent.
  struct Member {
    uint64_t number = 0;
    uint64_t period = 0;
    uint64_t process = 0;
  };
  struct Recent {
    uint64_t number = 0;
    MonoTime at;
    Nanos duration;
  };

  bool IsPast(uint64_t number) const { return last_ && number <= *last_; }
  // Begins again if most ranks have another period, or have gone back to earlier numbers.
  void CheckRestart(News& news);
  void Forget(RankId rank);
  // Adds a rank's own time in a step of this length. `own` is the median of all ranks.
  void CompareRank(RankId rank, Nanos time, Nanos own, Nanos length, News& news);
  void CompareStep(uint64_t number, const PendingStep& step, News& news);
  void LearnLength(Nanos length);
  SlowRank Describe(RankId rank, const Drift& drift, const Drift::Alarm& alarm, Nanos own,
                    Nanos length) const;
  // The median of the last kTypical durations of the first `count` recent steps.
  Nanos Typical(size_t count) const;

  std::optional<MonoTime> begun_;  // first arrival
  uint64_t period_ = 0;            // of the compared steps
  std::map<RankId, Member> members_;
  std::map<uint64_t, PendingStep> pending_;  // of period_
  size_t pending_rows_ = 0;
  std::optional<uint64_t> last_;
  uint64_t compared_ = 0;
  size_t ranks_ = 0;
  std::map<RankId, Drift> drifts_;
  std::vector<RankId> ended_;  // not returned yet
  std::deque<Recent> recent_;  // compared steps
  // Of a step: mean over some thousand, where the last ones count most. 0: none was compared yet.
  double usual_length_ns_ = 0;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_NOTICE_JOB_NOTICES_H_
