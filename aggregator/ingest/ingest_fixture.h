// An aggregator's services behind a real socket, for tests that act as the daemons and the CLI.
#ifndef LOCKSTEP_AGGREGATOR_INGEST_INGEST_FIXTURE_H_
#define LOCKSTEP_AGGREGATOR_INGEST_INGEST_FIXTURE_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "aggregator/ingest/control_service.h"
#include "aggregator/ingest/fake_daemon.h"
#include "aggregator/ingest/hub.h"
#include "aggregator/ingest/ingest_service.h"
#include "base/log/line_sink_fake.h"
#include "base/rpc/channel.h"
#include "base/rpc/server.h"
#include "capture/store/records.h"
#include "gtest/gtest.h"
#include "wire/columns/columns.h"

namespace lockstep::aggregator {

inline std::string Kernels(int rows, int64_t first = 0) {
  columns::BlockBuilder builder(columns::Kind::kKernel);
  for (int i = 0; i < rows; ++i) {
    std::vector<uint64_t> row(columns::Schema(columns::Kind::kKernel).size(), 0);
    row[columns::kernel::kStart] = static_cast<uint64_t>(first + i);
    row[columns::kernel::kDuration] = 1;
    builder.Append(row);
  }
  std::string out;
  builder.Encode(1, 0, out);
  return out;
}

// The events of a Trace call, collected while it runs.
struct TraceRun {
  std::vector<v1::TraceEvent> events;
  v1::TraceFinished finished;
  grpc::Status status;

  std::string States(int rank) const {
    std::string out;
    for (const v1::TraceEvent& e : events) {
      if (e.has_rank() && e.rank().rank() == rank)
        out += v1::RankState::State_Name(e.rank().state().state()) + " ";
    }
    return out;
  }
};

// Sends the events that the test supplied, and then reports that the job has ended.
class FakeSamples final : public SampleSource {
 public:
  absl::Status Watch(const v1::WatchRequest& request, const Caller&, WatchSink& sink) override {
    requested = request;
    for (const v1::WatchEvent& event : events) {
      if (!sink.Write(event)) return absl::CancelledError("left");
    }
    return end;
  }
  v1::WatchRequest requested;
  std::vector<v1::WatchEvent> events;
  absl::Status end;
};

// Refuses every recording with `end`, or returns one of that job.
class FakeRecordings final : public RecordingSource {
 public:
  absl::StatusOr<v1::JobRecording> Record(const v1::RecordRequest& request, const Caller&) override {
    if (!end.ok()) return end;
    v1::JobRecording recording;
    recording.set_job(request.job());
    return recording;
  }
  absl::Status end;
};

class IngestTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/lockstep-ingest-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    std::filesystem::create_directory(folder_ + "/captures");
    std::filesystem::create_directory(folder_ + "/samples");
  }
  void TearDown() override {
    for (auto& daemon : daemons_) daemon->Break();
    Close();
    std::filesystem::remove_all(folder_);
  }
  void Close() {
    if (hub_ != nullptr) {
      hub_->Shutdown();
      hub_->captures().WaitForRestored();
    }
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    if (ingest_ != nullptr) ingest_->Stop();
    server_ = nullptr;
  }

  void Serve(SessionLimits limits = Quick(), const std::string& token = "",
             std::shared_ptr<const rpc::CallerCredentials> credentials = nullptr) {
    HubOptions options;
    options.captures.folder = folder_ + "/captures";
    options.captures.samples_folder = folder_ + "/samples";
    options.captures.limits = limits;
    hub_ = std::make_unique<Hub>(options, clock_);
    rpc::Token secret;
    if (!token.empty()) secret = *rpc::Token::FromText(token);
    callers_ = std::make_unique<Callers>(
        Proofs{.token = secret,
               .credentials = std::move(credentials),
               .roles = std::make_shared<Roles>(role_settings_, std::make_shared<SystemUsers>(),
                                                std::make_shared<lockstep::SystemClock>()),
               .users = std::make_shared<SystemUsers>(),
               .clock = std::make_shared<lockstep::SystemClock>()},
        peers_);
    ingest_ = std::make_unique<IngestService>(*hub_, calls_, audit_, clock_, *callers_);
    control_ = std::make_unique<ControlService>(
        *hub_, samples_, recordings_, calls_, use_, audit_, *callers_, "test",
        ControlService::Facts{
            .add_noticed = [this](const Caller& caller, const std::string& job,
                                  v1::StatusReply& reply) { noticed_(caller, job, reply); }},
        [](const std::string&, v1::TraceFinished&) {});
    grpc::ServerBuilder builder;
    rpc::Configure(builder, {});
    address_ = "unix:" + folder_ + "/s";
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
    ingest_->Attach(builder);
    builder.RegisterService(control_.get());
    server_ = builder.BuildAndStart();
    ingest_->Start();
    stub_ = v1::Control::NewStub(Channel());
  }

  // Timeouts are long, so that a busy machine does not reach them. A test that waits for a timeout sets its
  // own.
  static SessionLimits Quick() {
    SessionLimits limits;
    limits.arm_timeout = Nanos::Seconds(20);
    limits.gone_wait = Nanos::Millis(200);
    limits.quiet = Nanos::Seconds(20);
    limits.abandon_wait = Nanos::Millis(300);
    limits.progress = Nanos::Millis(20);
    limits.caller_wait = Nanos();
    return limits;
  }

  std::shared_ptr<grpc::Channel> Channel() { return *rpc::Connect(address_); }

  FakeDaemon& Daemon(const std::string& node, uint64_t session) {
    daemons_.push_back(std::make_unique<FakeDaemon>(Channel(), node, session));
    return *daemons_.back();
  }
  FakeDaemon& DaemonWithRanks(const std::string& node, int first, int count, int world) {
    FakeDaemon& daemon = Daemon(node, static_cast<uint64_t>(first) + 1);
    EXPECT_EQ(daemon.Connect().refused(), "");
    daemon.SendRanks(first, count, world);
    for (int i = 0; i < 200 && SeenRanks() < first + count; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return daemon;
  }
  int SeenRanks() {
    int n = 0;
    const v1::StatusReply status = hub_->Status("", Caller::All());
    for (const auto& daemon : status.daemons()) n += daemon.ranks_size();
    return n;
  }

  std::future<TraceRun> Trace(Nanos duration = Nanos::Millis(50),
                              const std::function<void(v1::TraceRequest&)>& edit = {}) {
    v1::TraceRequest request;
    request.set_duration_ns(duration.ns());
    request.set_activities(0xFF);
    if (edit) edit(request);
    return std::async(std::launch::async, [this, request] { return Run(*stub_, request); });
  }
  static TraceRun Run(v1::Control::Stub& stub, const v1::TraceRequest& request) {
    TraceRun run;
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    auto reader = stub.Trace(&context, request);
    v1::TraceEvent event;
    while (reader->Read(&event)) {
      if (event.has_finished()) run.finished = event.finished();
      run.events.push_back(event);
    }
    run.status = reader->Finish();
    return run;
  }

  static std::string ArmAll(FakeDaemon& daemon) {
    const auto message = daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_arm(); });
    EXPECT_TRUE(message.has_arm());
    for (const v1::ProcessKey& p : message.arm().processes()) {
      daemon.SendState(message.arm().capture(), p.pid() - 1000, v1::RankState::ARMED);
    }
    return message.arm().capture();
  }
  static v1::Start WaitForStart(FakeDaemon& daemon) {
    return daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_start(); }).start();
  }

  // A started capture of one daemon with one rank.
  struct Started {
    FakeDaemon& daemon;
    std::future<TraceRun> running;
    std::string id;
  };
  Started StartCapture(Nanos duration = Nanos::Millis(50), SessionLimits limits = Quick()) {
    Serve(limits);
    FakeDaemon& daemon = DaemonWithRanks("n0", 0, 1, 1);
    std::future<TraceRun> running = Trace(duration);
    std::string id = ArmAll(daemon);
    WaitForStart(daemon);
    return {daemon, std::move(running), std::move(id)};
  }

  capture::Capture Load(const std::string& capture) {
    auto loaded = capture::LoadRecords(folder_ + "/captures/" + capture);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? *std::move(loaded) : capture::Capture();
  }

  std::string folder_;
  std::string address_;
  SystemJobClock clock_;
  std::unique_ptr<Hub> hub_;
  RpcCounts calls_;
  CaptureUse use_;
  // Lines of the audit log, oldest first.
  RecordedLines audited_;
  lockstep::SystemClock audit_clock_;
  AuditLog audit_{{.program = "test", .session = 1, .user_name = nullptr},
                  std::make_unique<FakeLineSink>(audited_),
                  audit_clock_};
  FakeSamples samples_;
  FakeRecordings recordings_;
  std::function<void(const Caller&, const std::string&, v1::StatusReply&)> noticed_ =
      [](const Caller&, const std::string&, v1::StatusReply&) {};
  std::unique_ptr<IngestService> ingest_;
  rpc::ConnectionGate peers_;  // without connections
  // Rights of callers whom credentials identify.
  RoleSettings role_settings_;
  std::unique_ptr<Callers> callers_;
  std::unique_ptr<ControlService> control_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Control::Stub> stub_;
  std::vector<std::unique_ptr<FakeDaemon>> daemons_;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_INGEST_INGEST_FIXTURE_H_
