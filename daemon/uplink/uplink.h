// Uplink runs the stream to one aggregator: it registers, sends ranks, states, batches and clock samples, and
// receives requests.
//
// It has three threads: one connects and writes (reconnecting with back-off), one reads, and one exchanges
// clocks. Requests go to UplinkEvents on one of those threads. Batches come from the spool, so a broken
// stream loses nothing. After the next Register, entries that were not stored are sent again under the same
// numbers.
#ifndef LOCKSTEP_DAEMON_UPLINK_UPLINK_H_
#define LOCKSTEP_DAEMON_UPLINK_UPLINK_H_

#include <grpcpp/channel.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/log/log.h"
#include "base/mutex.h"
#include "base/rpc/token.h"
#include "daemon/captures/capture_uplinks.h"
#include "daemon/drain/spool.h"
#include "daemon/uplink/clock_sync.h"
#include "lockstep/v1/ingest.grpc.pb.h"

namespace lockstep::daemon {

// Implemented by: AggregatorLinks, and tests. Any thread; must not block.
class UplinkEvents {
 public:
  virtual ~UplinkEvents() = default;
  // The uplink is registered and its ranks are being sent.
  virtual void OnUplinkUp(UplinkId uplink) = 0;
  // The stream broke or could not be opened. `last`: there will be no further attempt.
  virtual void OnUplinkDown(UplinkId uplink, const absl::Status& why, bool last) = 0;
  // The request is an Arm (also of the past), Start, Stop, ReadProgress, FollowSteps, or a Register that
  // lists the running captures.
  virtual void OnRequest(UplinkId uplink, const v1::FromAggregator& request) = 0;
};

struct UplinkOptions {
  UplinkId id = 0;
  // Makes a new channel for each attempt. Called on the uplink's thread.
  std::function<absl::StatusOr<std::shared_ptr<grpc::Channel>>()> connect;
  // kOverSockets: `connect` makes channels over connected sockets, which gRPC cannot watch.
  enum class Channels : uint8_t { kConnectThemselves, kOverSockets };
  Channels channels = Channels::kConnectThemselves;
  // Returns why the aggregator's certificate was refused; empty if it was not. On the same thread.
  std::function<std::string()> server_problem = [] { return std::string(); };
  std::string name;  // for the log
  rpc::Token token;
  // kReconnect: reconnects without end. kOnce: the uplink ends when its connection breaks. kWhileReachable:
  // reconnects until no attempt has succeeded for `gone_after`.
  enum class Mode : uint8_t { kReconnect, kOnce, kWhileReachable };
  Mode mode = Mode::kReconnect;
  Nanos gone_after = Nanos::Seconds(60);
  std::string node_id;
  std::string host_name;
  std::string version;
  uint64_t session = 0;            // random
  uint64_t spool_limit_bytes = 0;  // reported in DaemonHealth
  Nanos register_timeout = Nanos::Seconds(10);
};

class Uplink {
 public:
  // All references outlive this.
  Uplink(UplinkOptions options, std::shared_ptr<Spool> spool, const Clock& clock, UplinkEvents& events,
         Log& log);
  // Breaks the stream and waits for the threads.
  ~Uplink();
  Uplink(const Uplink&) = delete;
  Uplink& operator=(const Uplink&) = delete;

  void Start();
  // Waits until the aggregator has acknowledged everything, but not longer than `at_most`.
  void Flush(Nanos at_most);

  // Sets the complete list; it replaces the one before. Any thread, as for all functions below.
  void SetRanks(v1::RankUpdate ranks);
  void SendStates(v1::RankStates states);
  // Answers a request of the connected aggregator. It is dropped if the connection breaks first.
  void SendProgress(v1::ProgressAnswer answer);
  // Dropped if it is not connected.
  void SendSteps(v1::StepUpdate update);
  void SetClockSyncRate(ClockSyncRate rate) { clock_sync_.SetRate(rate); }
  OffsetEstimate Offset() const { return clock_sync_.Estimate(); }

  bool up() const { return up_; }
  // Returns the reason why the last attempt failed.
  std::string last_error();
  const std::shared_ptr<Spool>& spool() const { return spool_; }
  const UplinkOptions& options() const { return options_; }
  // Time of the last registration; 0 before the first.
  HostTime connected_at() const { return HostTime(connected_at_ns_); }
  // Number of registrations.
  uint64_t registrations() const { return registrations_; }

 private:
  using Stream = grpc::ClientReaderWriter<v1::FromDaemon, v1::FromAggregator>;
  static constexpr size_t kMostStates = 4096;
  static constexpr size_t kMostAnswers = 16;
  static constexpr size_t kMostStepUpdates = 16;
  // Slightly shorter than the interval of clock exchanges without a capture, because these wake the writer.
  static constexpr Nanos kHealthPause = Nanos::Seconds(9);

  void Run();
  absl::Status RunStream(bool* registered);
  absl::Status Handshake(Stream& stream);
  void ReadLoop(Stream& stream);
  void OnMessage(const v1::FromAggregator& message);
  absl::Status WriteLoop(Stream& stream);
  // Gets the next message to write: ranks and states first, then data. Returns false if there is none.
  bool NextMessage(v1::FromDaemon& message);
  bool WaitConnected(grpc::Channel& channel);
  void Wake();
  v1::DaemonHealth Health() const;

  const UplinkOptions options_;
  const std::shared_ptr<Spool> spool_;
  const Clock& clock_;
  UplinkEvents& events_;
  Log& log_;
  ClockSync clock_sync_;  // thread-safe
  std::atomic<bool> up_ = false;
  std::atomic<int64_t> connected_at_ns_ = 0;
  std::atomic<uint64_t> registrations_ = 0;

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;  // the reader has seen the stream's end
  bool spool_ready_ ABSL_GUARDED_BY(mutex_) = false;
  bool ranks_changed_ ABSL_GUARDED_BY(mutex_) = false;
  v1::RankUpdate ranks_ ABSL_GUARDED_BY(mutex_);
  std::deque<v1::RankStates> states_ ABSL_GUARDED_BY(mutex_);
  std::deque<v1::ProgressAnswer> answers_ ABSL_GUARDED_BY(mutex_);
  std::deque<v1::StepUpdate> steps_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::Register> registered_ ABSL_GUARDED_BY(mutex_);
  std::string last_error_ ABSL_GUARDED_BY(mutex_);
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;  // of the current stream
  std::optional<MonoTime> health_sent_at_;  // thread: the one that connects and writes
  std::thread thread_;                      // thread: owner
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_UPLINK_UPLINK_H_
