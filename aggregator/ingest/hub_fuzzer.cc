// Runs a script of two daemons against the hub during a capture. The daemons send every message of a stream
// with any content and in any order, and raw protobuf bytes. They reconnect, and the capture is stopped. The
// capture must end, and its records must be readable afterwards, however little is in them.
//
// The capture waits on a thread of its own, as in the aggregator.
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "aggregator/ingest/hub.h"
#include "base/fuzz_input_fixture.h"
#include "capture/store/records.h"
#include "wire/columns/blocks_fixture.h"

namespace lockstep::aggregator {
namespace {

constexpr size_t kDaemons = 2;
constexpr size_t kMostSteps = 100;

// Keeps the id of the capture that it was armed for.
class Connection final : public DaemonConnection {
 public:
  bool Send(const v1::FromAggregator& message) override {
    MutexLock lock(&mutex_);
    if (message.has_arm()) capture_ = message.arm().capture();
    changed_.SignalAll();
    return true;
  }
  void Close() override {}
  // The capture has ended.
  void End() {
    MutexLock lock(&mutex_);
    ended_ = true;
    changed_.SignalAll();
  }
  // Returns an empty text if the capture ends before it arms the daemon.
  std::string WaitForArm() {
    MutexLock lock(&mutex_);
    changed_.Wait(&mutex_,
                  [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_ || !capture_.empty(); });
    return capture_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::string capture_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

class Script {
 public:
  Script(const uint8_t* data, size_t size, const std::string& folder)
      : input_(data, size), hub_(Options(folder), clock_) {}

  // Returns the capture's folder.
  std::string Run() {
    for (size_t i = 0; i < kDaemons; ++i) Connect(i);
    v1::TraceRequest request;
    request.set_all(true);
    request.set_duration_ns(Nanos::Millis(1).ns());
    request.set_activities(0xFFF);
    request.set_via(std::array{"auto", "cupti", "kineto"}[input_.Below(3)]);
    if (input_.Flag()) {
      v1::Trigger& trigger = *request.mutable_trigger();
      trigger.set_begin(static_cast<v1::Trigger::Begin>(input_.Below(6)));
      trigger.set_end(static_cast<v1::Trigger::End>(input_.Below(5)));
      trigger.set_step(input_.Number());
      trigger.set_steps(input_.Number());
    }
    // Fields of any content replace or complete these.
    const std::string_view more = input_.Text();
    v1::TraceRequest any;
    if (any.ParseFromArray(more.data(), static_cast<int>(more.size()))) request.MergeFrom(any);
    std::thread capture([&, first = daemons_[0].connection] {
      hub_.captures().Trace(
          request, Caller::All(), [](const v1::TraceEvent&) {},
          [](const std::string&, v1::TraceFinished&) {});
      first->End();
    });
    capture_ = daemons_[0].connection->WaitForArm();
    for (size_t steps = 0; !input_.empty() && steps < kMostSteps; ++steps) Step();
    hub_.Status("", Caller::All());
    hub_.Shutdown();
    capture.join();
    return capture_;
  }

 private:
  struct Daemon {
    DaemonKey key;
    std::shared_ptr<Connection> connection;
    uint64_t sequence = 0;
  };

  static HubOptions Options(const std::string& folder) {
    HubOptions options;
    options.captures.folder = folder;
    SessionLimits& limits = options.captures.limits;
    // The script is shorter than these. Shutdown ends the capture.
    limits.arm_timeout = Nanos::Millis(3);
    limits.least_lead = Nanos::Millis(0);
    limits.longest_lead = Nanos::Millis(1);
    limits.gone_wait = Nanos::Millis(0);
    limits.abandon_wait = Nanos::Millis(0);
    limits.progress = Nanos::Millis(1);
    return options;
  }

  void Connect(size_t i) {
    v1::DaemonHello hello;
    hello.mutable_version()->set_protocol_min(1);
    hello.mutable_version()->set_protocol_max(1);
    hello.set_node_id("n" + std::to_string(i));
    hello.set_session(1);
    Daemon& daemon = daemons_[i];
    daemon.key = {hello.node_id(), hello.session()};
    daemon.connection = std::make_shared<Connection>();
    hub_.Connect(hello, daemon.connection);
    v1::FromDaemon message;
    v1::Rank& rank = *message.mutable_ranks()->add_ranks();
    *rank.mutable_process() = Process(i);
    rank.set_rank(static_cast<int32_t>(i));
    rank.set_world_size(kDaemons);
    rank.set_job("job");
    const uint8_t paths = input_.Number();
    rank.set_kineto((paths & 1) != 0);
    rank.set_via((paths & 2) != 0 ? "kineto" : "cupti");
    rank.set_cupti_holder((paths & 4) != 0 ? "another tool" : "");
    Up(daemon, message);
  }

  static v1::ProcessKey Process(size_t i) {
    v1::ProcessKey key;
    key.set_pid(static_cast<int32_t>(100 + i));
    return key;
  }

  void Up(const Daemon& daemon, const v1::FromDaemon& message) {
    hub_.Handle(daemon.key, daemon.connection.get(), message);
  }

  void Step() {
    const size_t i = input_.Below(kDaemons);
    Daemon& daemon = daemons_[i];
    v1::FromDaemon message;
    switch (input_.Below(11)) {
      case 0:
        SetState(*message.mutable_states());
        break;
      case 1:
        SetBatch(daemon, *message.mutable_batch());
        break;
      case 2:
        SetGap(daemon, *message.mutable_gap());
        break;
      case 3:
        SetTraceFile(daemon, *message.mutable_trace_file());
        break;
      case 4:
        SetEnd(daemon, *message.mutable_end());
        break;
      case 5:
        SetClock(*message.mutable_clock());
        break;
      case 6:
        return hub_.daemons().Disconnect(daemon.key, daemon.connection.get());
      case 7:
        return Connect(i);
      case 8:
        hub_.captures().Stop(capture_, Caller::All()).IgnoreError();
        return;
      case 9:
        SetRanks(*message.mutable_ranks());
        break;
      case 10: {
        const std::string_view bytes = input_.Text(4096);
        if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
        break;
      }
    }
    Up(daemon, message);
  }

  std::string CaptureId() { return input_.Below(8) != 7 ? capture_ : std::string(input_.Text()); }
  v1::ProcessKey AnyProcess() { return Process(input_.Below(kDaemons + 1)); }
  // Usually the next number, else one near it or far from it.
  uint64_t Sequence(Daemon& daemon) {
    const uint8_t choice = input_.Number();
    if (choice < 192) return ++daemon.sequence;
    if (choice < 255) return daemon.sequence += choice - 222;
    return input_.Number<uint64_t>();
  }

  void SetState(v1::RankStates& states) {
    states.set_capture(CaptureId());
    for (size_t n = input_.Below(3) + 1; n > 0; --n) {
      v1::RankState& state = *states.add_states();
      *state.mutable_process() = AnyProcess();
      state.set_state(static_cast<v1::RankState::State>(input_.Below(12)));
      const uint8_t flags = input_.Number();
      if ((flags & 1) != 0) state.set_text(std::string(input_.Text()));
      if ((flags & 2) != 0) state.set_lead_ns(input_.Number<int64_t>());
      if ((flags & 4) != 0) state.set_step(input_.Number<uint64_t>());
      if ((flags & 8) != 0) state.set_step_ns(input_.Number<int64_t>());
    }
  }
  // Blocks as a daemon makes them, or any bytes.
  std::string Blocks() {
    if (input_.Flag()) return std::string(input_.Text(4096));
    return columns::ScriptedBlock(input_, clock_.Now().ns());
  }
  void SetBatch(Daemon& daemon, v1::Batch& batch) {
    batch.set_sequence(Sequence(daemon));
    batch.set_capture(CaptureId());
    *batch.mutable_process() = AnyProcess();
    batch.set_incarnation(input_.Below(3));
    batch.set_blocks(Blocks());
    batch.set_rows(input_.Number());
  }
  void SetLosses(google::protobuf::RepeatedPtrField<v1::Loss>& losses) {
    for (size_t n = input_.Below(3); n > 0; --n) {
      v1::Loss& loss = *losses.Add();
      loss.set_stage(std::array{"ring", "spool", "newer"}[input_.Below(3)]);
      loss.set_kind(input_.Number());
      loss.set_records(input_.Number<uint64_t>());
      loss.set_from_ns(input_.Number<int64_t>());
      loss.set_to_ns(input_.Number<int64_t>());
      loss.set_reason(std::string(input_.Text()));
    }
  }
  void SetGap(Daemon& daemon, v1::Gap& gap) {
    gap.set_first_sequence(Sequence(daemon));
    gap.set_last_sequence(Sequence(daemon));
    gap.set_capture(CaptureId());
    *gap.mutable_process() = AnyProcess();
    SetLosses(*gap.mutable_losses());
    gap.set_definitions(Blocks());
  }
  void SetTraceFile(Daemon& daemon, v1::TraceFile& piece) {
    piece.set_sequence(Sequence(daemon));
    piece.set_capture(CaptureId());
    *piece.mutable_process() = AnyProcess();
    piece.set_data(std::string(input_.Text()));
    const uint8_t flags = input_.Number();
    piece.set_kind((flags & 1) != 0 ? v1::TraceFile::PYTHON_PROFILE : v1::TraceFile::KINETO);
    piece.set_last((flags & 2) != 0);
    if ((flags & 4) != 0) piece.set_given_up(std::string(input_.Text()));
    piece.set_offset((flags & 8) != 0 ? input_.Number<uint64_t>() : offset_);
    offset_ = piece.last() ? 0 : offset_ + piece.data().size();
    piece.set_begin_host_ns(input_.Number<int16_t>());
    piece.set_end_host_ns(input_.Number<int16_t>());
  }
  void SetEnd(Daemon& daemon, v1::CaptureEnd& end) {
    end.set_sequence(Sequence(daemon));
    end.set_capture(CaptureId());
    *end.mutable_process() = AnyProcess();
    SetLosses(*end.mutable_losses());
    end.set_t0_host_ns(input_.Number<int64_t>());
    end.set_t1_host_ns(input_.Number<int64_t>());
  }
  void SetClock(v1::ClockSamples& clock) {
    for (size_t n = input_.Below(4); n > 0; --n) {
      v1::ClockSample& sample = *clock.add_samples();
      sample.set_t1_ns(input_.Number<int64_t>());
      sample.set_t2_ns(input_.Number<int64_t>());
      sample.set_t3_ns(input_.Number<int64_t>());
      sample.set_t4_ns(input_.Number<int64_t>());
    }
  }
  void SetRanks(v1::RankUpdate& update) {
    for (size_t n = input_.Below(4); n > 0; --n) {
      v1::Rank& rank = *update.add_ranks();
      *rank.mutable_process() = AnyProcess();
      rank.set_rank(input_.Number<int32_t>());
      rank.set_world_size(input_.Number<int32_t>());
      rank.set_job(std::string(input_.Text()));
      rank.set_uid(input_.Number());
      rank.set_via(std::array{"", "cupti", "kineto"}[input_.Below(3)]);
      rank.set_kineto(input_.Flag());
    }
  }

  FuzzInput input_;
  SystemJobClock clock_;
  std::string capture_;
  uint64_t offset_ = 0;  // of the next piece of a trace file
  std::array<Daemon, kDaemons> daemons_;
  Hub hub_;
};

}  // namespace
}  // namespace lockstep::aggregator

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace fs = std::filesystem;
  // A file system in memory: each input writes files.
  static const std::string folder = [] {
    char pattern[] = "/dev/shm/lockstep-hub-XXXXXX";
    return std::string(::mkdtemp(pattern));
  }();
  const std::string id = lockstep::aggregator::Script(data, size, folder).Run();
  if (!id.empty() && !fs::exists(folder + "/" + id + "/records/manifest.json")) std::abort();
  if (!id.empty()) lockstep::capture::LoadRecords(folder + "/" + id).status().IgnoreError();
  for (const auto& entry : fs::directory_iterator(folder)) fs::remove_all(entry.path());
  return 0;
}
