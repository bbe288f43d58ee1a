// FleetDaemon is one simulated daemon: a stream to the aggregator, with the ranks of one node.
//
// The threads of a completion queue run it. They pass each completion to its FleetTag. The daemon speaks
// Ingest as lockstepd does, with three differences. It arms at once. It has all rows of a capture before the
// window ends, and sends none earlier. It has no triggers, Kineto, operation logs and Python profiles.
// A stream that breaks stays broken.
#ifndef LOCKSTEP_SIM_FLEET_FLEET_DAEMON_H_
#define LOCKSTEP_SIM_FLEET_FLEET_DAEMON_H_

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "base/rpc/token.h"
#include "lockstep/v1/ingest.grpc.pb.h"
#include "sim/fleet/clock_exchange.h"
#include "sim/fleet/fleet_captures.h"
#include "sim/fleet/options.h"
#include "sim/fleet/rank_batches.h"

namespace lockstep::sim {

// A completion in the queue.
class FleetTag {
 public:
  virtual ~FleetTag() = default;
  virtual void Complete(bool ok) = 0;
};

// Implemented by: Fleet, and tests. Called on any thread of the queue.
class FleetEvents {
 public:
  virtual ~FleetEvents() = default;
  virtual void OnRegistered() = 0;
  // The stream has ended, and the daemon uses the queue only for completions that are on their way.
  // `expected`: the daemon itself ended it.
  enum class Expected : uint8_t { kNo, kYes };
  virtual void OnOver(uint32_t daemon, const absl::Status& why, Expected expected) = 0;
};

// A capture that a daemon takes part in.
struct RunningCapture {
  std::string capture;
  std::vector<v1::ProcessKey> processes;
  Interval<HostTime> window;
  std::vector<std::vector<RankBatch>> batches;  // of each process, once they are encoded
  bool encoded = false;
  bool window_over = false;
  uint64_t last_sequence = 0;  // of its last message; 0: not queued yet
  FleetSize size;
};

class FleetDaemon {
 public:
  // All references outlive this, and so does the queue's last completion.
  FleetDaemon(uint32_t number, const FleetOptions& options, const rpc::Token& token,
              std::shared_ptr<grpc::Channel> channel, grpc::CompletionQueue& queue, FleetCaptures& captures,
              FleetEvents& events);
  FleetDaemon(const FleetDaemon&) = delete;
  FleetDaemon& operator=(const FleetDaemon&) = delete;

  // Opens the stream.
  void Start();
  // Breaks the stream. Any thread.
  void Stop();

 private:
  struct Tag final : FleetTag {
    Tag(FleetDaemon& of, void (FleetDaemon::*call)(bool)) : daemon(of), on(call) {}
    void Complete(bool ok) override { (daemon.*on)(ok); }
    FleetDaemon& daemon;
    void (FleetDaemon::*const on)(bool);
  };
  struct Outgoing {
    v1::FromDaemon message;
    std::optional<FleetMoment> moment;  // to note when it was written
  };

  void OnStarted(bool ok);
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool ok);
  void OnPinged(bool ok);
  void OnPaused(bool ok);
  void OnEncode(bool ok);
  void OnAlarm(bool ok);

  void Handle(const v1::FromAggregator& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Register(const v1::Register& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Acknowledge(const v1::Ack& ack) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Arm(const v1::Arm& arm) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RefusePast(const v1::Arm& arm) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Begin(const v1::Start& start) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(const v1::Stop& stop) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AnswerProgress(uint64_t request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  uint32_t RankOf(const v1::ProcessKey& process) const;
  void SendHello() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendRanks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendStates(v1::RankState::State state, std::optional<FleetMoment> moment)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Queues the rows if they are encoded and the window is over.
  void SendRows() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void QueueProcess(const v1::ProcessKey& process, std::vector<RankBatch> batches)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void QueueEnd(const v1::ProcessKey& process) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishCapture(FleetCaptures::End end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetAlarm(HostTime at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint32_t number_;
  const FleetOptions& options_;
  const rpc::Token& token_;
  const std::string node_;
  const uint64_t session_;
  FleetCaptures& captures_;       // thread-safe
  FleetEvents& events_;           // thread-safe
  grpc::CompletionQueue& queue_;  // thread-safe
  const std::unique_ptr<v1::Ingest::Stub> stub_;

  Tag started_{*this, &FleetDaemon::OnStarted};    // thread: any
  Tag read_{*this, &FleetDaemon::OnRead};          // thread: any
  Tag written_{*this, &FleetDaemon::OnWritten};    // thread: any
  Tag finished_{*this, &FleetDaemon::OnFinished};  // thread: any
  Tag pinged_{*this, &FleetDaemon::OnPinged};      // thread: any
  Tag paused_{*this, &FleetDaemon::OnPaused};      // thread: any
  Tag encode_{*this, &FleetDaemon::OnEncode};      // thread: any
  Tag alarmed_{*this, &FleetDaemon::OnAlarm};      // thread: any

  Mutex mutex_;
  grpc::ClientContext context_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::ClientAsyncReaderWriter<v1::FromDaemon, v1::FromAggregator>> stream_
      ABSL_GUARDED_BY(mutex_);
  v1::FromAggregator incoming_ ABSL_GUARDED_BY(mutex_);
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
  absl::Status refused_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool alarm_set_ ABSL_GUARDED_BY(mutex_) = false;
  bool encoding_ ABSL_GUARDED_BY(mutex_) = false;  // a completion of encode_ is on its way
  std::optional<FleetMoment> being_written_ ABSL_GUARDED_BY(mutex_);
  std::deque<Outgoing> control_ ABSL_GUARDED_BY(mutex_);  // written before data_
  std::deque<Outgoing> data_ ABSL_GUARDED_BY(mutex_);     // numbered messages
  uint64_t next_sequence_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t written_sequence_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t acked_sequence_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t credits_ ABSL_GUARDED_BY(mutex_) = 1;
  ClockExchange clock_ ABSL_GUARDED_BY(mutex_);
  std::optional<RunningCapture> running_ ABSL_GUARDED_BY(mutex_);
  grpc::Alarm alarm_ ABSL_GUARDED_BY(mutex_);  // the begin and the end of the window
  grpc::Alarm encode_now_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_FLEET_FLEET_DAEMON_H_
