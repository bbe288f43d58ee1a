// GpuWindows captures running jobs for a short time, again and again, as `lockstep record on --gpu 1s/60s`
// asks, and keeps the last captures of each. So what the GPUs did is known of the past, too.
#ifndef LOCKSTEP_AGGREGATOR_NOTICE_GPU_WINDOWS_H_
#define LOCKSTEP_AGGREGATOR_NOTICE_GPU_WINDOWS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "aggregator/captures/captures.h"
#include "aggregator/ingest/recording_source.h"
#include "aggregator/nodes/clock.h"
#include "aggregator/nodes/seen_rank.h"
#include "aggregator/notice/program_capture.h"
#include "base/log/audit_log.h"
#include "base/log/log.h"
#include "base/mutex.h"
#include "base/time.h"

namespace lockstep::aggregator {

struct GpuWindowsOptions {
  // Captures that all recordings together keep, at most.
  size_t most_kept = 50;
  std::function<MonoTime()> now = &MonoNow;
  LogSink log = &LogNothing;
  RunTrace trace;
  // Returns the job that a name selects, if it runs and the caller may capture it.
  std::function<absl::StatusOr<JobKey>(const std::string& job, const Caller&)> resolve;
  // Returns the jobs that a name selects, also ended ones, as DaemonRegistry::JobsNamed.
  std::function<std::set<JobKey>(const std::string& job)> named;
  // Returns the jobs with running processes.
  std::function<std::set<JobKey>()> running;
  // Removes what Surplus returns, except captures that are being read.
  std::function<void()> tidy;
  // Returns whether the capture is stored.
  std::function<bool(const std::string& capture)> stored;
};

// Thread-safe. It has one thread, which makes one window at a time. A window that comes too late, because
// that of another job takes long, is left out. Recordings end with the aggregator, and ten minutes after the
// job's last process.
class GpuWindows final : public RecordingSource {
 public:
  // The references outlive this.
  GpuWindows(const JobClock& clock, AuditLog& audit, GpuWindowsOptions options);
  ~GpuWindows() override;
  GpuWindows(const GpuWindows&) = delete;
  GpuWindows& operator=(const GpuWindows&) = delete;

  void Start();
  // Before Start and after Shutdown, it fails with kFailedPrecondition.
  absl::StatusOr<v1::JobRecording> Record(const v1::RecordRequest& request, const Caller& caller) override;
  // Returns the captures that have had their time, and those of windows without data.
  std::set<std::string> Surplus() const;
  // Appends the recordings that `job` selects, or all if it is empty, and that the caller may see.
  void AddTo(v1::StatusReply& reply, const std::string& job, const Caller& caller) const;
  // Returns after the window that runs, which the caller ends.
  void Shutdown();

 private:
  static constexpr size_t kMostRecordings = 64;
  static constexpr size_t kMostOfUser = 8;
  static constexpr Nanos kForget = Nanos::Seconds(600);

  struct Recording {
    v1::JobRecording state;
    std::string asked;  // the job's name in the request
    std::vector<std::string> surplus;
    uint64_t generation = 0;  // another one after each Record
    MonoTime next;            // begin of the next window
    MonoTime seen;            // when the job last had a running process
    AuditCaller by;
  };

  // `named` are the jobs that the name selects.
  static bool IsNamed(const std::string& name, const std::set<JobKey>& named, const JobKey& job,
                      const Recording& recording);
  absl::StatusOr<v1::JobRecording> Begin(const v1::RecordRequest& request, const Caller& caller);
  absl::StatusOr<v1::JobRecording> End(const v1::RecordRequest& request, const Caller& caller);
  // Returns why there can be no further recording of the job with that many captures.
  absl::Status CheckRoom(const JobKey& job, uint32_t keep) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();
  // Ends the recordings of jobs that have ended, and returns the job whose window is due first. `*wait` is
  // the time until the next look if none is due.
  std::optional<JobKey> Due(Nanos* wait);
  void MakeWindow(const JobKey& job);
  // Takes the end of a window of this generation.
  void Note(const JobKey& job, uint64_t generation, const v1::TraceFinished& finished);
  // Forgets captures that are not stored any more.
  void ForgetRemoved();
  bool running();

  const JobClock& clock_;
  AuditLog& audit_;
  const GpuWindowsOptions options_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;  // a recording was added or changed
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<JobKey, Recording> recordings_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // thread: owner
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_NOTICE_GPU_WINDOWS_H_
