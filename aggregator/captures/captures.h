// Captures starts captures and samples, and holds those that run and the last ones that have ended.
//
// Thread-safe. Its lock is not held while a session is called.
#ifndef LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURES_H_
#define LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURES_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "aggregator/captures/callers.h"
#include "aggregator/captures/capture_feed.h"
#include "aggregator/captures/capture_journal.h"
#include "aggregator/captures/capture_session.h"
#include "aggregator/captures/selection.h"
#include "aggregator/captures/session_limits.h"
#include "aggregator/nodes/clock.h"
#include "aggregator/nodes/daemon_registry.h"
#include "aggregator/nodes/node_clocks.h"
#include "base/log/log.h"
#include "base/metrics/histogram.h"
#include "base/mutex.h"
#include "lockstep/v1/control.pb.h"
#include "wire/losses/loss_table.h"

namespace lockstep::aggregator {

struct CapturesOptions {
  std::string folder;          // one folder per capture is created here; must exist
  std::string samples_folder;  // same for samples; empty: samples are not supported
  SessionLimits limits;
  LogSink log = &LogNothing;
};

// Totals since the start, except the first one.
struct CaptureCounts {
  size_t running = 0;
  std::map<v1::TraceFinished::Outcome, uint64_t> captures;
  std::map<v1::TraceFinished::Outcome, uint64_t> samples;
  metrics::DurationHistogram took;  // from the request to the finished report
};

// Returns the outcome's word in the log, the audit log and metrics.
const char* OutcomeName(v1::TraceFinished::Outcome outcome);

// Returns whether the capture has records.
bool HasData(const v1::TraceFinished& finished);

// A capture whose report is not finished. Its phase is "closed" while the report is made.
struct RunningCapture {
  v1::CaptureStatus status;
  uint32_t uid = 0;
  int32_t world_size = 0;
  size_t missing_ranks = 0;
};

class Captures {
 public:
  // The three references must outlive the captures.
  Captures(CapturesOptions options, const JobClock& clock, const DaemonRegistry& daemons,
           const NodeClocks& clocks);
  ~Captures() { WaitForRestored(); }

  // Restores a capture of an earlier process from its journal. Call it before the first daemon connects.
  absl::Status Restore(const std::string& id, const JournalContent& content);
  // The same for a capture whose records/ is complete, and whose report may not be.
  void RestoreClosed(const std::string& id);
  // Runs the restored captures, each on a thread of its own, and `after` each.
  using After = std::function<void(const std::string& folder, v1::TraceFinished&)>;
  void RunRestored(const After& after);
  // Runs one capture on this thread. `after` runs when records/ is complete and may change the reported
  // outcome.
  v1::TraceFinished Trace(const v1::TraceRequest& request, const Caller& caller,
                          const CaptureSession::Emit& emit, const After& after);
  // Like Trace for a sample, whose folder is removed before this returns. Fails with kFailedPrecondition if
  // another capture has, or took, one of its ranks. Fails with kNotFound if the job does not exist, and with
  // kPermissionDenied if it is another user's.
  absl::StatusOr<v1::TraceFinished> Sample(const v1::TraceRequest& request, const Caller& caller,
                                           const CaptureSession::Emit& emit, const After& after);
  // Follows a capture that runs, or one of the last that have ended, until its last event. Returns an error
  // if there is none, if it is another user's (kPermissionDenied), or if `write` fails (kCancelled).
  absl::Status Follow(const std::string& capture, const Caller& caller,
                      const std::function<bool(const v1::TraceEvent&)>& write) const;
  // The caller of the capture's Trace left at `since`. Ends the capture if nobody has followed it for a
  // while.
  void StopUnlessFollowed(const std::string& capture, MonoTime since);
  // Returns the ranks that the request selects now. kNotFound: there are none. kPermissionDenied: the job is
  // another user's.
  absl::StatusOr<Selection> Resolve(const v1::TraceRequest& request, const Caller& caller) const;
  // kNotFound: the capture does not run. kPermissionDenied: it is another user's.
  absl::Status Stop(const std::string& capture, const Caller& caller);

  // Returns null if the capture does not run.
  std::shared_ptr<CaptureSession> Find(const std::string& capture) const;
  void OnDaemonBack(const DaemonKey& daemon);
  void OnClock(const std::string& node_id, const v1::ClockSamples& samples);
  // Waits until everything that the captures stored before is on disk.
  void Sync();
  // Returns the captures and samples with processes of the node whose records/ is not complete yet.
  v1::RunningCaptures RunningOnNode(const std::string& node_id) const;
  // Appends the captures of `job`, or of all jobs if it is empty, that the caller may use.
  void AddTo(v1::StatusReply& reply, const std::string& job, const Caller& caller) const;
  std::vector<RunningCapture> Running() const;
  // Returns true if the capture's records/ is not complete yet.
  bool IsWriting(const std::string& capture) const;
  CaptureCounts counts() const;
  // Lost records of all captures.
  const losses::LossTable& losses() const { return losses_; }
  const std::string& folder() const { return options_.folder; }

  // Refuses new captures and ends those that run. Returns when they have ended, or after `abandon_wait` and
  // 5 s more.
  void Shutdown();
  // Waits for the restored captures and for `after` each of them. Call it after Shutdown.
  void WaitForRestored();

 private:
  struct FinishedCapture {
    uid_t uid = 0;
    v1::CaptureStatus status;
    std::shared_ptr<CaptureFeed> feed;
  };
  struct RunningSession {
    std::shared_ptr<CaptureSession> session;
    std::shared_ptr<CaptureFeed> feed;
  };

  absl::StatusOr<RunningSession> Begin(const v1::TraceRequest& request, const Caller& caller,
                                       Purpose purpose);
  // Makes the report of a capture whose records/ is complete, and notes its end.
  void End(const RunningSession& running, const CaptureSession::Emit& emit, const After& after,
           MonoTime begun, v1::TraceFinished& finished);
  SessionEnvironment Environment() { return {clock_, clocks_, daemons_, losses_, options_.limits}; }
  std::vector<std::shared_ptr<CaptureSession>> Sessions() const;

  const CapturesOptions options_;
  const JobClock& clock_;
  const DaemonRegistry& daemons_;
  const NodeClocks& clocks_;
  // thread-safe
  losses::LossTable losses_{{"cupti", "client", "ring", "spool", "wire", "store", "other"}};

  mutable Mutex mutex_;
  CondVar changed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, RunningSession> sessions_ ABSL_GUARDED_BY(mutex_);
  std::deque<FinishedCapture> finished_ ABSL_GUARDED_BY(mutex_);  // the newest last
  CaptureCounts counts_ ABSL_GUARDED_BY(mutex_);                  // `running` is unused
  std::vector<std::string> closed_;                               // thread: owner; restored
  std::vector<std::thread> restored_;                             // thread: owner
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURES_H_
