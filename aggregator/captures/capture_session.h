// CaptureSession runs one capture from ARM to its last record (ARCHITECTURE.md, decision 5).
//
//   arming ──all armed, or --arm-timeout──▶ capturing ──T1, or Stop──▶ draining ──all ended, or timeout──▶
//   closed
//
// With a trigger each rank opens and closes its own window. Capturing then lasts until all windows have
// closed or the ranks have waited too long. If steps are counted from no step in particular, the session
// chooses one that all ranks can still reach. For this the ranks report their current step and receive the
// common one.
//
// Every phase has a deadline, so a capture always ends; its records up to then are kept. One thread runs
// Run(). The On… calls come from the daemons' streams on any thread and only record events.
//
// Lock order: the session, then its CaptureData or the NodeClocks. No lock is held while a message is sent or
// an event is emitted.
#ifndef LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURE_SESSION_H_
#define LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURE_SESSION_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "aggregator/captures/capture_data.h"
#include "aggregator/captures/capture_journal.h"
#include "aggregator/captures/capture_messages.h"
#include "aggregator/captures/capture_outcome.h"
#include "aggregator/captures/capture_ranks.h"
#include "aggregator/captures/selection.h"
#include "aggregator/captures/session_limits.h"
#include "aggregator/captures/start_plan.h"
#include "aggregator/nodes/clock.h"
#include "aggregator/nodes/daemon_registry.h"
#include "aggregator/nodes/node_clocks.h"
#include "base/mutex.h"
#include "lockstep/v1/control.pb.h"
#include "lockstep/v1/ingest.pb.h"
#include "wire/losses/loss_table.h"

namespace lockstep::aggregator {

// The parts of the aggregator that a session uses. They outlive it.
struct SessionEnvironment {
  const JobClock& clock;
  const NodeClocks& clocks;
  const DaemonRegistry& daemons;
  losses::LossTable& lost;
  SessionLimits limits;
};

class CaptureSession {
 public:
  using Emit = std::function<void(const v1::TraceEvent&)>;

  // Creates `folder`, with a mark of ours, and `folder`/records. The selection must not have an error.
  static absl::StatusOr<std::unique_ptr<CaptureSession>> Create(std::string id, const std::string& folder,
                                                                Purpose purpose, Selection selection,
                                                                const v1::TraceRequest& request,
                                                                const SessionEnvironment& env);

  // Restores a capture of an earlier process from the journal in `folder`, as far as it had come. kDataLoss:
  // a file of records/ is not as the journal says.
  static absl::StatusOr<std::unique_ptr<CaptureSession>> Restore(const std::string& folder,
                                                                 const JournalContent& content,
                                                                 const SessionEnvironment& env);

  // Runs to the end, closes records/ and returns the outcome. The caller runs the analysis, and then removes
  // the journal. `emit` is called on this thread.
  v1::TraceFinished Run(const Emit& emit);
  // Like Run for a restored capture: continues if its window is still open or has just closed, and otherwise
  // closes it with what was stored.
  v1::TraceFinished RunRestored(const Emit& emit);
  // Ends the capture early and keeps its records. Any thread.
  void Stop();
  // Like Stop, but waits only `abandon_wait` for the last records, because the aggregator is ending. Any
  // thread.
  void Abandon();

  void OnStates(const DaemonKey& from, const v1::RankStates& states);
  // kNotFound: the process is not in this capture on that node. Any other error says which records were not
  // stored and why; they are counted as lost.
  absl::Status OnBatch(const DaemonKey& from, const v1::Batch& batch);
  void OnGap(const DaemonKey& from, const v1::Gap& gap);
  // Returns errors like OnBatch. A file that remains incomplete is discarded and counted as lost.
  absl::Status OnTraceFile(const DaemonKey& from, const v1::TraceFile& piece);
  void OnEnd(const DaemonKey& from, const v1::CaptureEnd& end);
  // `batches` sequence numbers never arrived and are not explained by a gap.
  void OnHole(const DaemonKey& from, uint64_t batches);
  void OnDaemonBack(const DaemonKey& daemon);
  void OnClock(const std::string& node_id, const v1::ClockSamples& samples);
  // Waits until everything that was stored before is on disk. After an error the capture ends and reports it.
  void Sync();

  const std::string& id() const { return id_; }
  const Selection& selection() const { return selection_; }
  Purpose purpose() const { return purpose_; }
  // Captures of the past do not occupy the processes.
  bool of_the_past() const { return request_.past_ns() != 0; }
  v1::CaptureStatus Status() const;
  // Returns true if the process is in this capture. A process is in one capture at a time.
  bool Holds(const std::string& node_id, const v1::ProcessKey& process) const;
  // Returns true if RunRestored would continue.
  bool CanContinue() const;
  // Returns true if processes of the node are in this capture and records/ is not complete yet.
  bool RunsOn(const std::string& node_id) const;

 private:
  CaptureSession(std::string id, Purpose purpose, Selection selection, const v1::TraceRequest& request,
                 const SessionEnvironment& env, JobTime made_at);

  // Creates the journal in `folder`, or none for a sample. Uses only constant members.
  absl::StatusOr<std::unique_ptr<CaptureJournal>> MakeJournal(const std::string& folder) const;

  // The phases of Run(), in order.
  void SendArms();
  void Arm(const Emit& emit);
  void Start();
  // Waits until T0; reports the time left if it is long.
  void AwaitStart(const Emit& emit);
  void AgreeOnStep(const Emit& emit);
  void Capture(const Emit& emit);
  void Drain(const Emit& emit);
  v1::TraceFinished Close(const Emit& emit);

  // Waits a moment without emitting events. Returns true if all ranks are armed.
  bool AllArmSoon();
  // Waits until `done` returns true or until `until`, and emits events meanwhile. `done` is called with the
  // lock held.
  void WaitFor(const Emit& emit, MonoTime until, const std::function<bool()>& done);
  // Releases the lock while it emits.
  void EmitPending(const Emit& emit, MonoTime until) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<DaemonKey> Daemons(CaptureRanks::Of ranks) const;
  // Returns the time after which a message has reached all these daemons.
  Nanos DeliveryTime(const std::vector<DaemonKey>& daemons) const;
  // OnDaemonBack sends to the daemons that are away now.
  void SendAll(const std::vector<DaemonKey>& daemons, const v1::FromAggregator& message) const;
  void SendStop(StopMode mode);
  void Report(size_t rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetState(size_t rank, v1::RankState::State state, const std::string& text)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Notes that the daemon is alive. Returns the rank of a message's process, or the number of ranks if it is
  // not in this capture.
  size_t NoteAlive(const DaemonKey& from, const v1::ProcessKey& process)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the capture if the error means that nothing more can be stored. Returns the error.
  absl::Status StopIfBroken(absl::Status stored);
  // Returns the number of ranks if the node has none. The first rank of a node stands for all.
  size_t FirstRankOf(const std::string& node_id) const;
  void EndRank(size_t rank, const v1::CaptureEnd& end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Closes a restored capture that cannot continue.
  v1::TraceFinished CloseRestored(const Emit& emit);
  void JournalStart();
  // Does again what an entry says, without its data.
  void Replay(const v1::JournalEntry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Replay(const v1::JournalStored& stored) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  CaptureFacts Facts() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string id_;
  const Purpose purpose_;
  const Selection selection_;
  const v1::TraceRequest request_;
  const SessionEnvironment env_;
  const JobTime made_at_;
  std::unique_ptr<CaptureData> data_;  // set before Create and Restore return

  mutable Mutex mutex_;
  CondVar changed_;
  CapturePhase phase_ ABSL_GUARDED_BY(mutex_) = CapturePhase::kArming;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<StopMode> stopped_ ABSL_GUARDED_BY(mutex_);  // of the last Stop that was sent
  MonoTime abandoned_ ABSL_GUARDED_BY(mutex_);               // 0: not abandoned
  CaptureRanks ranks_ ABSL_GUARDED_BY(mutex_);
  StartPlan plan_ ABSL_GUARDED_BY(mutex_);
  std::deque<v1::TraceEvent> events_ ABSL_GUARDED_BY(mutex_);
  MonoTime last_message_ ABSL_GUARDED_BY(mutex_);
  std::string restarted_ ABSL_GUARDED_BY(mutex_);  // CaptureFacts::restarted
  MonoTime last_progress_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURE_SESSION_H_
