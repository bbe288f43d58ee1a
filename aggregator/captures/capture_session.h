// One capture from ARM to its last record: architecture.md, decision 5.
//
//   arming ──all armed, or --arm-timeout──▶ capturing ──T1, or Stop──▶ draining ──all ended, or too quiet──▶
//   closed
//
// With a trigger each rank opens and closes its window by itself; capturing lasts until all have, or have
// waited in vain. Steps that are counted from no step in particular begin at one that all ranks can still
// meet: they say where they are, and are told.
//
// Every phase has a deadline, so a capture always ends; what was captured until then is kept. One thread runs
// Run(); the On… calls come from the daemons' streams, any thread, and only note what happened.
#ifndef LOCKSTEP_AGGREGATOR_INGEST_CAPTURE_SESSION_H_
#define LOCKSTEP_AGGREGATOR_INGEST_CAPTURE_SESSION_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "aggregator/captures/selection.h"
#include "aggregator/nodes/clock.h"
#include "capture/store/records_writer.h"
#include "lockstep/v1/control.pb.h"
#include "lockstep/v1/ingest.pb.h"

namespace lockstep::ingest {

struct SessionLimits {
  Nanos arm_timeout = Nanos::Seconds(10);   // where the request names none
  Nanos least_lead = Nanos::Millis(50);     // from START to T0
  Nanos longest_lead = Nanos::Seconds(60);  // the same, whatever a rank says it needs
  Nanos gone_wait = Nanos::Seconds(5);      // for the last records of a process that is gone
  Nanos quiet = Nanos::Seconds(10);         // draining: nothing came from any daemon that owes something
  Nanos drain = Nanos::Seconds(120);        // draining, all in all
  // The last two for captures with ranks that PyTorch's profiler captures: it processes for minutes, and then
  // sends all at once.
  Nanos kineto_quiet = Nanos::Seconds(30);
  Nanos kineto_drain = Nanos::Seconds(600);
  Nanos abandon_wait = Nanos::Seconds(3);  // draining, when the aggregator ends
  Nanos progress = Nanos::Millis(200);     // between progress events
};

// A sample is for `lockstep top`: it gives way to captures, and its folder is removed when it has been looked
// at.
enum class Purpose : uint8_t { kCapture, kSample };

// What the session needs of the hub. Called without the session's lock, but for `lost`.
struct SessionEnvironment {
  const Clock* clock = nullptr;
  SessionLimits limits;
  Purpose purpose = Purpose::kCapture;
  // To one daemon; false when it is not connected. Then the session sends again when OnDaemonBack tells.
  std::function<bool(const DaemonKey&, const v1::FromAggregator&)> send;
  // Clock exchanges with a node since `from`, and its 99th-percentile round trip.
  std::function<std::vector<store::ClockExchange>(const std::string& node_id, JobTime from)> exchanges;
  std::function<Nanos(const std::string& node_id)> round_trip_p99;
  // Each loss that the capture's report will show; `kind` is columns::Kind, 0 for none. With the session's
  // lock: it must not call back.
  std::function<void(const std::string& stage, uint32_t kind, uint64_t records)> lost =
      [](const std::string&, uint32_t, uint64_t) {};
};

class CaptureSession {
 public:
  using Emit = std::function<void(const v1::TraceEvent&)>;

  // Makes `folder`/records. The selection must not be in error.
  static absl::StatusOr<std::unique_ptr<CaptureSession>> Create(std::string id, const std::string& folder,
                                                                Selection selection,
                                                                const v1::TraceRequest& request,
                                                                SessionEnvironment env);

  // Runs to the end and returns how it ended, with records/ closed; analysis is the caller's. `emit` is
  // called on this thread.
  v1::TraceFinished Run(const Emit& emit);
  // Ends the capture early and keeps what there is. Any thread.
  void Stop();
  // The same, and waits for last records only as long as `abandon_wait`: the aggregator is ending. Any
  // thread.
  void Abandon();

  void OnStates(const DaemonKey& from, const v1::RankStates& states);
  // kNotFound: no process of this capture on that node. Other errors: what was not stored, and why; it is
  // counted.
  absl::Status OnBatch(const DaemonKey& from, const v1::Batch& batch);
  void OnGap(const DaemonKey& from, const v1::Gap& gap);
  // As OnBatch. A file that does not become whole is thrown away and counted.
  absl::Status OnTraceFile(const DaemonKey& from, const v1::TraceFile& piece);
  void OnEnd(const DaemonKey& from, const v1::CaptureEnd& end);
  // Sequence numbers that never came and that no gap explains.
  void OnHole(const DaemonKey& from, uint64_t batches);
  void OnDaemonBack(const DaemonKey& daemon);

  const std::string& id() const { return id_; }
  const Selection& selection() const { return selection_; }
  Purpose purpose() const { return env_.purpose; }
  v1::CaptureStatus Status() const;
  // The processes it holds: one process is in one capture at a time.
  bool Holds(const std::string& node_id, const v1::ProcessKey& process) const;

 private:
  enum class Phase { kArming, kStarting, kCapturing, kDraining, kClosed };

  struct Process {
    SeenRank seen;
    v1::RankState state;
    bool kineto = false;  // how it is captured
    bool kineto_if_held = false;
    std::string held;  // why it went over from its client to PyTorch's profiler; empty: it did not
    // Not empty: nobody can capture it as was asked, and why.
    std::string refused;
    bool trace_failed = false;
    uint64_t trace_bytes = 0;
    HostInterval profile_window;  // of its Python profile
    std::string no_profile;       // why there is none, as far as it was told
    bool armed = false;
    bool ended = false;
    MonoTime gone_since;            // 0: not gone
    uint64_t incarnation = 0;       // of its newest segment; 0 before the first batch
    std::string early_definitions;  // of gaps that came before the first batch
    HostInterval window;
    JobTime step_told;  // when its last step came in
    // As gaps and the capture's end tell them, and what this aggregator could not store.
    std::vector<store::Loss> losses;
  };

  CaptureSession(std::string id, Selection selection, const v1::TraceRequest& request,
                 SessionEnvironment env);

  // Run()'s phases, in order.
  void Arm(const Emit& emit);
  void Start();
  // Until T0, where that is far enough to be told.
  void AwaitStart(const Emit& emit);
  void AgreeOnStep(const Emit& emit);
  Nanos LongestLead() const;
  void Capture(const Emit& emit);
  void Drain(const Emit& emit);
  v1::TraceFinished Close(const Emit& emit);

  // Waits for `done` under the lock, emitting what happened meanwhile, until `until` (0: no limit).
  void WaitFor(const Emit& emit, MonoTime until, const std::function<bool()>& done);
  void EmitPending(const Emit& emit, std::unique_lock<std::mutex>& lock, MonoTime until);
  void EmitPhase(const Emit& emit, const char* phase);
  void SendDown(const DaemonKey& daemon, const v1::FromAggregator& message);
  enum class Of { kAll, kArmed };
  std::vector<DaemonKey> Daemons(Of processes) const;
  // Place in processes_, or its size.
  size_t Find(const DaemonKey& from, const v1::ProcessKey& process) const;
  // `kind`: columns::Kind, 0 for none.
  void Discard(size_t process, const std::string& stage, uint32_t kind, uint64_t rows,
               const std::string& reason);
  void AppendLosses(const google::protobuf::RepeatedPtrField<v1::Loss>& losses, Process& process);
  // Appends to the process's file. Without the lock: a slow disk must not hold up the other daemons.
  absl::Status Write(size_t process, uint64_t incarnation, uint64_t rows, const std::string& blocks);
  bool AnyKineto() const;
  struct Ways {
    size_t clients = 0;
    size_t kineto = 0;
  };
  // Of the armed.
  Ways ArmedWays() const;
  // How those that go through PyTorch's profiler begin where there is a trigger.
  v1::Start::KinetoBegin ChooseKinetoBegin() const;
  // A window of theirs that holds the steps the clients have agreed on, `ahead` of now at the soonest.
  JobInterval WindowOfSteps(Nanos ahead) const;
  // It has begun to go through PyTorch's profiler, though its client was chosen.
  void NoteGoneOver(Process& process, const v1::RankState& state);
  void LoseTrace(size_t process, const std::string& reason);
  // A piece of its Python profile.
  absl::Status OnPythonProfile(size_t process, const v1::TraceFile& piece);
  void NoteProfiles(const std::vector<store::ManifestProcess>& processes,
                    std::vector<std::string>& notes) const;
  v1::FromAggregator StartMessage() const;
  Nanos TriggerTimeout() const;
  bool triggered() const { return request_.trigger().begin() != v1::Trigger::AT_T0; }
  // The step that every waiting rank can begin at when it is told of it `ahead` of now; nullopt when none has
  // told its own.
  std::optional<uint64_t> CommonStep(Nanos ahead) const;
  v1::FromAggregator ArmMessage(const DaemonKey& daemon) const;
  void SetState(Process& process, v1::RankState::State state, const std::string& text);
  void Report(const Process& process);
  // Nothing more is to be expected of the process in this phase.
  bool Settled(const Process& process) const;
  bool AllSettled() const;
  // What was recorded: T0 to T1, or with a trigger from the first rank's begin to the last one's end.
  JobInterval Window() const;
  store::Manifest MakeManifest() const;
  v1::TraceFinished Outcome() const;

  const std::string id_;
  const Selection selection_;
  const v1::TraceRequest request_;
  const SessionEnvironment env_;
  const JobTime made_at_;
  std::unique_ptr<store::RecordsWriter> writer_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Phase phase_ = Phase::kArming;
  bool stopping_ = false;
  MonoTime abandoned_;              // 0: not
  std::vector<Process> processes_;  // in the order of the manifest; never resized after Create
  std::deque<v1::TraceEvent> events_;
  std::map<DaemonKey, std::vector<v1::FromAggregator>> undelivered_;
  MonoTime last_news_;
  JobTime t0_;
  JobTime t1_;
  std::optional<uint64_t> common_step_;
  v1::Start::KinetoBegin kineto_begin_ = v1::Start::BY_ITERATION;
  JobInterval kineto_window_;
  uint64_t records_ = 0;
  uint64_t holes_ = 0;
  std::string write_error_;
  MonoTime last_progress_;  // Run()'s thread only
};

}  // namespace lockstep::ingest

#endif  // LOCKSTEP_AGGREGATOR_INGEST_CAPTURE_SESSION_H_
