// Slowdowns notices ranks of running jobs that become slower than they were, from the steps that daemons
// send. It logs each, keeps the last ones of each job, and passes new ones on to a policy.
#ifndef LOCKSTEP_AGGREGATOR_NOTICE_SLOWDOWNS_H_
#define LOCKSTEP_AGGREGATOR_NOTICE_SLOWDOWNS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "aggregator/captures/callers.h"
#include "aggregator/ingest/step_sink.h"
#include "aggregator/nodes/clock.h"
#include "aggregator/nodes/daemon_registry.h"
#include "aggregator/nodes/seen_rank.h"
#include "aggregator/notice/alarm.h"
#include "analysis/notice/job_notices.h"
#include "base/log/log.h"
#include "base/mutex.h"
#include "base/time.h"
#include "lockstep/v1/control.pb.h"

namespace lockstep::aggregator {

struct SlowdownCounts {
  uint64_t noticed = 0;  // since the start
  // The jobs with steps in the last minutes, by name and user.
  std::vector<v1::JobSteps> jobs;
};

struct SlowdownsOptions {
  std::function<MonoTime()> now = &MonoNow;
  LogSink log = &LogNothing;
  // Called for each new slowdown, on a thread that serves a daemon. It must return at once.
  std::function<void(const Alarm&)> on_new = [](const Alarm&) {};
};

// Thread-safe.
class Slowdowns final : public StepSink {
 public:
  // The references outlive this.
  Slowdowns(const DaemonRegistry& daemons, const JobClock& clock, SlowdownsOptions options);

  void OnSteps(const DaemonKey& daemon, const v1::StepUpdate& steps) override;
  // Ends the wait for late ranks, ends the slowdowns of jobs without processes, and forgets jobs that have
  // sent nothing for an hour. Call it each second.
  void Advance();
  void NoteCapture(uint64_t id, const AlarmCapture& capture);

  // Appends the jobs that `job` selects, or all if it is empty, and that the caller may see.
  void AddTo(v1::StatusReply& reply, const std::string& job, const Caller& caller) const;
  SlowdownCounts counts() const;
  // Returns the jobs that have ended a step within this time.
  std::set<JobKey> SteppedWithin(Nanos time) const;

 private:
  // Beyond these, the job that has been quiet for longest is forgotten.
  static constexpr size_t kMostJobs = 1024;
  static constexpr size_t kMostHosts = size_t{1} << 17;  // of a job's ranks
  static constexpr size_t kMostKept = 16;                // those that have ended
  static constexpr Nanos kForget = Nanos::Seconds(3600);
  // The processes of a job without steps for longer may have ended.
  static constexpr Nanos kQuiet = Nanos::Seconds(20);
  static constexpr Nanos kBetweenTrends = Nanos::Seconds(60);
  static constexpr size_t kMostTrends = 60;
  // A job without steps for longer has ended, hangs, or is in a long evaluation.
  static constexpr Nanos kRuns = Nanos::Seconds(300);

  struct Kept {
    uint64_t id = 0;
    v1::Slowdown slowdown;
  };
  struct Job {
    analysis::JobNotices notices;
    MonoTime heard;
    std::map<RankId, std::string> hosts;
    std::deque<Kept> kept;    // the newest last
    std::deque<Nanos> trend;  // as JobSteps.trend_ns
    MonoTime trend_at;        // of its newest value

    // True if a rank is still slow.
    bool slow() const {
      return std::any_of(kept.begin(), kept.end(),
                         [](const Kept& k) { return k.slowdown.ended_unix_ns() == 0; });
    }
  };
  struct Change {
    uint64_t id = 0;
    JobKey job;
    v1::Slowdown slowdown;
  };
  struct Changes {
    std::vector<Change> slower, ended;
  };

  // Ends the slowdowns and the trend of quiet jobs of which no process runs. A later job may have the same
  // name.
  void EndThoseWithoutProcesses(MonoTime now, Changes& news) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropQuietest(const std::set<JobKey>& kept) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void NoteTrend(Job& job, MonoTime now);
  // Takes what a job's steps have shown, and appends the changes.
  void Note(const JobKey& key, Job& job, const analysis::JobNotices::News& from, Changes& news)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::JobSteps Describe(const JobKey& key, const Job& job) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t UnixNs(MonoTime at) const;
  void Announce(const Changes& news);

  const DaemonRegistry& daemons_;
  const JobClock& clock_;
  const SlowdownsOptions options_;

  mutable Mutex mutex_;
  std::map<JobKey, Job> jobs_ ABSL_GUARDED_BY(mutex_);
  uint64_t noticed_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_NOTICE_SLOWDOWNS_H_
