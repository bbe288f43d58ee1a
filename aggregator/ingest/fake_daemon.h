// A daemon for tests. It speaks Ingest over a real channel, does what the test requests, and stores the
// received messages.
#ifndef LOCKSTEP_AGGREGATOR_INGEST_FAKE_DAEMON_H_
#define LOCKSTEP_AGGREGATOR_INGEST_FAKE_DAEMON_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/time.h"
#include "lockstep/v1/ingest.grpc.pb.h"

namespace lockstep::aggregator {

class FakeDaemon {
 public:
  FakeDaemon(std::shared_ptr<grpc::Channel> channel, std::string node, uint64_t session)
      : stub_(v1::Ingest::NewStub(std::move(channel))), node_(std::move(node)), session_(session) {}
  ~FakeDaemon() { Break(); }

  // Opens the stream, sends the hello and waits for the answer.
  v1::Register Connect(const std::string& token = "") {
    context_ = std::make_unique<grpc::ClientContext>();
    context_->set_wait_for_ready(true);
    if (!token.empty()) context_->AddMetadata("lockstep-token", token);
    stream_ = stub_->Stream(context_.get());
    {
      MutexLock lock(&mutex_);
      ended_ = false;
    }
    v1::FromDaemon message;
    v1::DaemonHello& hello = *message.mutable_hello();
    hello.mutable_version()->set_protocol_min(protocol_min);
    hello.mutable_version()->set_protocol_max(protocol_max);
    hello.mutable_version()->set_program("fake");
    hello.set_node_id(node_);
    hello.set_host_name(node_);
    hello.set_session(session_);
    Write(message);
    reader_ = std::thread([this] { Read(); });
    const auto got = WaitFor([](const v1::FromAggregator& m) { return m.has_register_(); });
    return got.register_();
  }

  void Break() {
    if (context_ == nullptr) return;
    context_->TryCancel();
    reader_.join();
    stream_->Finish();
    stream_ = nullptr;
    context_ = nullptr;
  }

  bool Write(const v1::FromDaemon& message) {
    MutexLock lock(&write_mutex_);
    return stream_->Write(message);
  }

  void SendRanks(int first, int count, int world, const std::string& job = "job") {
    v1::FromDaemon message;
    message.mutable_ranks();
    for (int r = first; r < first + count; ++r) {
      v1::Rank& rank = *message.mutable_ranks()->add_ranks();
      *rank.mutable_process() = Process(r);
      rank.set_rank(r);
      rank.set_world_size(world);
      rank.set_job(job);
      rank.set_uid(1000);
      rank.set_incarnation(1);
    }
    Write(message);
  }

  static v1::ProcessKey Process(int rank) {
    v1::ProcessKey key;
    key.set_pid(1000 + rank);
    key.set_start_ticks(static_cast<uint64_t>(rank) + 7);
    return key;
  }

  void SendTraceFile(uint64_t sequence, const std::string& capture, int rank, uint64_t offset,
                     const std::string& data, const std::function<void(v1::TraceFile&)>& edit) {
    v1::FromDaemon message;
    v1::TraceFile& piece = *message.mutable_trace_file();
    piece.set_sequence(sequence);
    piece.set_capture(capture);
    *piece.mutable_process() = Process(rank);
    piece.set_offset(offset);
    piece.set_data(data);
    edit(piece);
    Write(message);
  }

  void SendState(const std::string& capture, int rank, v1::RankState::State state,
                 const std::string& text = "", Nanos lead = Nanos()) {
    v1::FromDaemon message;
    message.mutable_states()->set_capture(capture);
    v1::RankState& s = *message.mutable_states()->add_states();
    *s.mutable_process() = Process(rank);
    s.set_state(state);
    s.set_text(text);
    s.set_lead_ns(lead.ns());
    Write(message);
  }

  void SendWaiting(const std::string& capture, int rank, uint64_t step, Nanos step_time) {
    v1::FromDaemon message;
    message.mutable_states()->set_capture(capture);
    v1::RankState& s = *message.mutable_states()->add_states();
    *s.mutable_process() = Process(rank);
    s.set_state(v1::RankState::WAITING);
    s.set_step(step);
    s.set_step_ns(step_time.ns());
    Write(message);
  }

  void SendBatch(uint64_t sequence, const std::string& capture, int rank, const std::string& blocks,
                 uint64_t rows) {
    v1::FromDaemon message;
    v1::Batch& batch = *message.mutable_batch();
    batch.set_sequence(sequence);
    batch.set_capture(capture);
    *batch.mutable_process() = Process(rank);
    batch.set_incarnation(1);
    batch.set_blocks(blocks);
    batch.set_rows(rows);
    Write(message);
  }

  void SendEnd(uint64_t sequence, const std::string& capture, int rank, uint64_t lost = 0) {
    v1::FromDaemon message;
    v1::CaptureEnd& end = *message.mutable_end();
    end.set_sequence(sequence);
    end.set_capture(capture);
    *end.mutable_process() = Process(rank);
    end.set_t0_host_ns(1);
    end.set_t1_host_ns(Nanos::Seconds(3600).ns());
    if (lost > 0) {
      v1::Loss& loss = *end.add_losses();
      loss.set_stage("ring");
      loss.set_kind(2);
      loss.set_records(lost);
      loss.set_reason("full");
    }
    Write(message);
  }

  // Returns and removes the first received message that fits. Returns an empty one after five seconds or if
  // the stream has ended.
  v1::FromAggregator WaitFor(const std::function<bool(const v1::FromAggregator&)>& fits) {
    MutexLock lock(&mutex_);
    v1::FromAggregator found;
    changed_.WaitFor(&mutex_, Nanos::Seconds(5), [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      for (auto it = received_.begin(); it != received_.end(); ++it) {
        if (!fits(*it)) continue;
        found = *it;
        received_.erase(it);
        return true;
      }
      return ended_;
    });
    return found;
  }
  bool WaitForAck(uint64_t through) {
    return WaitFor([&](const v1::FromAggregator& m) { return m.has_ack() && m.ack().through() >= through; })
        .has_ack();
  }
  bool ended() {
    MutexLock lock(&mutex_);
    return ended_;
  }
  bool WaitForEnd() {
    MutexLock lock(&mutex_);
    return changed_.WaitFor(&mutex_, Nanos::Seconds(5),
                            [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_; });
  }

  // set before Connect
  uint32_t protocol_min = 1;
  uint32_t protocol_max = 1;

 private:
  void Read() {
    v1::FromAggregator message;
    while (stream_->Read(&message)) {
      MutexLock lock(&mutex_);
      received_.push_back(message);
      changed_.SignalAll();
    }
    MutexLock lock(&mutex_);
    ended_ = true;
    changed_.SignalAll();
  }

  const std::unique_ptr<v1::Ingest::Stub> stub_;
  const std::string node_;
  const uint64_t session_;
  // set before the reading thread starts
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::FromDaemon, v1::FromAggregator>> stream_;
  std::thread reader_;
  Mutex write_mutex_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<v1::FromAggregator> received_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_INGEST_FAKE_DAEMON_H_
