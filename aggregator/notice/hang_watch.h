// HangWatch notices hangs of running jobs by itself. It logs each, keeps the last ones of each job, and
// passes new ones on to a policy.
#ifndef LOCKSTEP_AGGREGATOR_NOTICE_HANG_WATCH_H_
#define LOCKSTEP_AGGREGATOR_NOTICE_HANG_WATCH_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "aggregator/captures/callers.h"
#include "aggregator/nodes/clock.h"
#include "aggregator/nodes/daemon_registry.h"
#include "aggregator/nodes/seen_rank.h"
#include "aggregator/notice/alarm.h"
#include "aggregator/notice/hang_examination.h"
#include "base/log/log.h"
#include "base/mutex.h"
#include "base/time.h"
#include "lockstep/v1/control.pb.h"

namespace lockstep::aggregator {

struct HangCounts {
  uint64_t noticed = 0;  // since the start
  std::vector<JobKey> hanging;
};

struct HangWatchOptions {
  Nanos after;                              // as in ExplainHang; 0: it never looks
  Nanos between_looks = Nanos::Seconds(1);  // as in HangExamination
  LogSink log = &LogNothing;
  // Called for each new hang, on the watch's thread.
  std::function<void(const Alarm&)> on_new = [](const Alarm&) {};
  // Returns the jobs with running ranks that may hang. Others are not examined, and do not hang.
  std::function<std::set<JobKey>()> suspects;
  HangExamination::Look look;
};

// Thread-safe.
//
// A hang has ended when an examination shows that no rank of the job waits, or when the job is not a suspect
// any more. If a daemon did not answer, an examination shows nothing, because its ranks would look absent. A
// daemon that has lost its connection is not known to be missing. So ranks must be absent in kLooksOfAbsence
// examinations, in which it can return.
class HangWatch {
 public:
  // The references outlive this.
  HangWatch(const DaemonRegistry& daemons, const JobClock& clock, HangWatchOptions options);
  ~HangWatch();
  HangWatch(const HangWatch&) = delete;
  HangWatch& operator=(const HangWatch&) = delete;

  // Starts a thread that examines the suspects six times within `after`, but at most once per second. A
  // suspect whose ranks keep no progress is left out for that time.
  void Start();
  // Examines the suspects once. One thread at a time.
  void Examine();
  // Returns at once. What the examination that runs will show does not count, nor do later ones.
  void Stop();
  // Stops, and returns after the examination that runs, which the caller's `look` ends.
  void Shutdown();

  void NoteCapture(uint64_t id, const AlarmCapture& capture);
  // Appends the hangs of jobs that `job` selects, or all if it is empty, and that the caller may see.
  void AddTo(v1::StatusReply& reply, const std::string& job, const Caller& caller) const;
  HangCounts counts() const;

 private:
  static constexpr Nanos kShortestPause = Nanos::Seconds(1);
  static constexpr Nanos kLongestPause = Nanos::Seconds(10);
  static constexpr size_t kMostKept = 256;
  static constexpr Nanos kForget = Nanos::Seconds(3600);
  static constexpr int kLooksOfAbsence = 6;
  static constexpr int kLooksWithoutProgress = 6;

  struct Kept {
    uint64_t id = 0;
    v1::JobHang hang;
  };

  void Run();
  void Sleep(Nanos time);
  bool stopping();
  // Returns the suspects without those that lately kept no progress.
  std::set<JobKey> Suspects();
  // True if the job hangs, and absent ranks have been absent for long enough.
  bool Hangs(const JobKey& key, const ExplainedJob& job);
  // Takes what an examination has shown. `waiting` are the jobs that hang or wait; of them, `hanging` hang.
  void Note(const std::set<JobKey>& waiting, const std::map<JobKey, const ExplainedJob*>& hanging);
  // The job must hang.
  v1::JobHang Describe(const JobKey& key, const ExplainedJob& job) const;
  void Announce(const std::vector<Alarm>& begun, const std::vector<v1::JobHang>& ended) const;

  const DaemonRegistry& daemons_;
  const JobClock& clock_;
  const HangWatchOptions options_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Kept> kept_ ABSL_GUARDED_BY(mutex_);  // the newest last; at most one of a job has not ended
  uint64_t noticed_ ABSL_GUARDED_BY(mutex_) = 0;
  // Successive examinations in which ranks of the job were absent.
  std::map<JobKey, int> absences_;  // thread: the one in Examine
  // Examinations from which the job is left out.
  std::map<JobKey, int> without_progress_;  // thread: the one in Examine
  std::thread thread_;                      // thread: owner
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_NOTICE_HANG_WATCH_H_
