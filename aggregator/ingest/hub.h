// Everybody the aggregator knows: daemons, their ranks and clocks, and the captures that run.
//
// The gRPC services are thin shells around this class; it does not know gRPC. Any thread; one daemon's
// messages come one after the other.
#ifndef LOCKSTEP_AGGREGATOR_INGEST_HUB_H_
#define LOCKSTEP_AGGREGATOR_INGEST_HUB_H_

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

#include "absl/status/statusor.h"
#include "aggregator/captures/callers.h"
#include "aggregator/captures/capture_session.h"
#include "aggregator/captures/selection.h"
#include "aggregator/nodes/clock.h"
#include "aggregator/nodes/daemon_connection.h"
#include "base/log/log.h"
#include "base/metrics/histogram.h"
#include "lockstep/v1/control.pb.h"
#include "lockstep/v1/ingest.pb.h"
#include "wire/losses/loss_table.h"

namespace lockstep::ingest {

struct HubOptions {
  std::string captures_folder;  // one folder per capture is made here; must exist
  std::string samples_folder;   // the same for samples; empty: there are none
  uint32_t credits = 16;        // batches a daemon may have unacknowledged
  SessionLimits limits;
  LogSink log = &LogNothing;
};

// Since the hub was made, but for the first three.
struct HubStats {
  size_t daemons = 0;  // connected
  size_t ranks = 0;    // of those
  size_t captures_running = 0;
  std::map<v1::TraceFinished::Outcome, uint64_t> captures;
  std::map<v1::TraceFinished::Outcome, uint64_t> samples;
  metrics::DurationHistogram capture_took;  // from the request to the report
  // Stored messages of daemons, and what was in them.
  uint64_t batches = 0;
  uint64_t gaps = 0;
  uint64_t ends = 0;
  uint64_t trace_pieces = 0;
  uint64_t records = 0;
  uint64_t record_bytes = 0;
  uint64_t trace_bytes = 0;
  // Messages that were not stored.
  uint64_t duplicates = 0;  // sent again, and here before
  uint64_t discarded = 0;   // of no capture that runs
  uint64_t missing = 0;     // that never came, and that no gap explains
};

// A job's name and its user: two users' jobs never merge.
struct JobKey {
  std::string job;
  uint32_t uid = 0;
  auto operator<=>(const JobKey&) const = default;
};
struct SeenJob {
  int32_t world_size = 0;
  JobTime last_seen;  // when a daemon last told of it, or left
};

// As the log, the audit log and metrics spell it.
const char* OutcomeWord(v1::TraceFinished::Outcome outcome);

// A capture that has not ended, its report included: "closed" while that is made.
struct RunningCapture {
  v1::CaptureStatus status;
  uint32_t uid = 0;
  int32_t world_size = 0;
  size_t missing_ranks = 0;
};

class Hub {
 public:
  // `clock` must outlive the hub.
  Hub(HubOptions options, const Clock& clock);
  ~Hub();

  // What a daemon's stream does, in this order. Connect sends the Register down `connection`, before anything
  // else goes there, and returns it; with `refused` set it was not sent, and the stream ends there.
  v1::Register Connect(const v1::DaemonHello& hello, std::shared_ptr<DaemonConnection> connection);
  // Returns the sequence that is stored by now, where the message was one to be acknowledged.
  std::optional<uint64_t> Handle(const DaemonKey& daemon, const DaemonConnection* connection,
                                 const v1::FromDaemon& message);
  void Disconnect(const DaemonKey& daemon, const DaemonConnection* connection);

  // Runs one capture on this thread. `after` runs when records/ is complete and may change how it is told to
  // have ended.
  using After = std::function<void(const std::string& folder, v1::TraceFinished&)>;
  v1::TraceFinished Trace(const v1::TraceRequest& request, const Caller& caller,
                          const CaptureSession::Emit& emit, const After& after);
  // The same for a sample, whose folder is gone when this returns. kFailedPrecondition: another capture has
  // one of its ranks, or took it; kNotFound, kPermissionDenied: the job's.
  absl::StatusOr<v1::TraceFinished> Sample(const v1::TraceRequest& request, const Caller& caller,
                                           const CaptureSession::Emit& emit, const After& after);
  // The ranks that the request means now. kNotFound, kPermissionDenied.
  absl::StatusOr<Selection> Resolve(const v1::TraceRequest& request, const Caller& caller) const;
  // kNotFound where no such capture runs, kPermissionDenied where it is another user's.
  absl::Status Stop(const std::string& capture, const Caller& caller);
  // Ranks and captures that the caller may use.
  v1::StatusReply Status(const std::string& job, const Caller& caller) const;
  // The last daemon of each node that has none connected and had one within a day.
  std::vector<v1::AbsentDaemon> Absent() const;
  std::vector<RunningCapture> Running() const;
  // The last 256 jobs, those that are gone too.
  std::map<JobKey, SeenJob> SeenJobs() const;
  // Waits until a connected daemon has told its ranks.
  bool WaitForDaemon(Nanos at_most);
  // Ends running captures and closes all connections; what comes afterwards is refused.
  void Shutdown();

  HubStats stats() const;
  const metrics::LossTable& losses() const { return losses_; }
  const HubOptions& options() const { return options_; }
  // Its records/ is not complete yet.
  bool IsWriting(const std::string& capture) const;

 private:
  struct Daemon {
    std::shared_ptr<DaemonConnection> connection;  // null while it is away
    std::string host_name;
    v1::Version version;
    std::optional<v1::DaemonHealth> health;
    JobTime left;  // where it is away
    std::vector<v1::Rank> ranks;
    bool told_ranks = false;
    uint64_t acked = 0;
    JobTime connected;
    // Held while one of its numbered messages is stored, so that two streams of one daemon never store one
    // twice.
    std::shared_ptr<std::mutex> order = std::make_shared<std::mutex>();
  };
  using Exchanges = std::deque<store::ClockExchange>;
  static constexpr uint32_t kProtocolMin = 1;
  static constexpr uint32_t kProtocolMax = 1;

  std::shared_ptr<CaptureSession> SessionOf(const std::string& capture) const;
  std::vector<std::shared_ptr<CaptureSession>> Sessions() const;
  std::optional<uint64_t> HandleData(const DaemonKey& key, const v1::FromDaemon& message);
  void Count(const std::function<void(HubStats&)>& add);
  // The lock is held.
  void NoteSeen(const std::vector<v1::Rank>& ranks);
  std::optional<uint64_t> Sequenced(const DaemonKey& key, uint64_t first, uint64_t last,
                                    const std::string& capture,
                                    const std::function<void(CaptureSession&)>& store);
  void AddClocks(const DaemonKey& key, const v1::ClockSamples& samples);
  absl::StatusOr<std::shared_ptr<CaptureSession>> Begin(const v1::TraceRequest& request, const Caller& caller,
                                                        Purpose purpose);
  SessionEnvironment Environment(Purpose purpose);
  Nanos RoundTripP99(const std::string& node_id) const;
  std::vector<SeenRank> Seen(size_t& daemons) const;
  static Nanos RoundTrip(const store::ClockExchange& e) { return (e.t4 - e.t1) - (e.t3 - e.t2); }
  static void FillClock(const Exchanges& exchanges, v1::DaemonStatus& status);

  const HubOptions options_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool closing_ = false;
  std::map<DaemonKey, Daemon> daemons_;
  std::map<std::string, Exchanges> clocks_;  // by node
  std::map<std::string, std::shared_ptr<CaptureSession>> sessions_;
  struct FinishedCapture {
    uid_t uid = 0;
    v1::CaptureStatus status;
  };
  std::deque<FinishedCapture> finished_;  // the newest last
  std::map<JobKey, SeenJob> seen_jobs_;
  HubStats counts_;  // without its first three
  metrics::LossTable losses_{{"cupti", "client", "ring", "spool", "wire", "store", "other"}};
};

}  // namespace lockstep::ingest

#endif  // LOCKSTEP_AGGREGATOR_INGEST_HUB_H_
