// The aggregator's services over real gRPC streams, with fake daemons.
#include <grpcpp/grpcpp.h>

#include <cstdlib>
#include <filesystem>
#include <future>

#include "aggregator/ingest/control_service.h"
#include "aggregator/ingest/fake_daemon.h"
#include "aggregator/ingest/hub.h"
#include "aggregator/ingest/ingest_service.h"
#include "aggregator/store/records.h"
#include "common/columns/columns.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::ingest {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::string Kernels(int rows, int64_t first = 0) {
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

// What a Trace call told, collected while it runs.
struct TraceRun {
  std::vector<v1::TraceEvent> events;
  v1::TraceFinished finished;
  grpc::Status status;

  std::string States(int rank) const {
    std::string out;
    for (const v1::TraceEvent& e : events) {
      if (e.has_rank() && e.rank().rank() == rank) out += v1::RankState::State_Name(e.rank().state().state()) + " ";
    }
    return out;
  }
};

class IngestTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/lockstep-ingest-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    fs::create_directory(folder_ + "/captures");
  }
  void TearDown() override {
    for (auto& daemon : daemons_) daemon->Break();
    if (hub_ != nullptr) hub_->Shutdown();
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    server_ = nullptr;
    fs::remove_all(folder_);
  }

  void Serve(SessionLimits limits = Quick(), const std::string& token = "") {
    HubOptions options;
    options.captures_folder = folder_ + "/captures";
    options.limits = limits;
    hub_ = std::make_unique<Hub>(options, clock_);
    rpc::Token secret;
    if (!token.empty()) secret = *rpc::Token::FromText(token);
    ingest_ = std::make_unique<IngestService>(*hub_, clock_, secret);
    control_ = std::make_unique<ControlService>(*hub_, secret, "test", [](const std::string&, v1::TraceFinished&) {});
    grpc::ServerBuilder builder;
    rpc::Configure(builder);
    address_ = "unix:" + folder_ + "/s";
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
    builder.RegisterService(ingest_.get());
    builder.RegisterService(control_.get());
    server_ = builder.BuildAndStart();
    stub_ = v1::Control::NewStub(Channel());
  }

  static SessionLimits Quick() {
    SessionLimits limits;
    limits.arm_timeout = Nanos::Millis(300);
    limits.gone_wait = Nanos::Millis(200);
    limits.quiet = Nanos::Millis(500);
    limits.abandon_wait = Nanos::Millis(300);
    limits.progress = Nanos::Millis(20);
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
    for (int i = 0; i < 200 && SeenRanks() < first + count; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return daemon;
  }
  int SeenRanks() {
    int n = 0;
    const v1::StatusReply status = hub_->Status("");
    for (const auto& daemon : status.daemons()) n += daemon.ranks_size();
    return n;
  }

  std::future<TraceRun> Trace(Nanos duration = Nanos::Millis(50), const std::function<void(v1::TraceRequest&)>& edit = {}) {
    v1::TraceRequest request;
    request.set_duration_ns(duration.ns());
    request.set_activities(0xFF);
    if (edit) edit(request);
    return std::async(std::launch::async, [this, request] {
      TraceRun run;
      grpc::ClientContext context;
      auto reader = stub_->Trace(&context, request);
      v1::TraceEvent event;
      while (reader->Read(&event)) {
        if (event.has_finished()) run.finished = event.finished();
        run.events.push_back(event);
      }
      run.status = reader->Finish();
      return run;
    });
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

  store::Capture Load(const std::string& capture) {
    auto loaded = store::LoadRecords(folder_ + "/captures/" + capture);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? *std::move(loaded) : store::Capture();
  }

  std::string folder_;
  std::string address_;
  SystemClock clock_;
  std::unique_ptr<Hub> hub_;
  std::unique_ptr<IngestService> ingest_;
  std::unique_ptr<ControlService> control_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Control::Stub> stub_;
  std::vector<std::unique_ptr<FakeDaemon>> daemons_;
};

TEST_F(IngestTest, ACaptureGoesFromArmToRecordsOnDisk) {
  Serve();
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 2, 2);
  auto running = Trace();
  const std::string id = ArmAll(daemon);
  const v1::Start start = WaitForStart(daemon);
  EXPECT_EQ(start.t1_ns() - start.t0_ns(), Nanos::Millis(50).ns());
  for (int rank : {0, 1}) daemon.SendState(id, rank, v1::RankState::CAPTURING);
  daemon.SendBatch(1, id, 0, Kernels(10), 10);
  daemon.SendBatch(2, id, 1, Kernels(20), 20);
  EXPECT_TRUE(daemon.WaitForAck(2));
  for (int rank : {0, 1}) daemon.SendState(id, rank, v1::RankState::DONE);
  daemon.SendEnd(3, id, 0);
  daemon.SendEnd(4, id, 1, /*lost=*/5);
  const TraceRun run = running.get();
  ASSERT_TRUE(run.status.ok()) << run.status.error_message();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::COMPLETE) << run.finished.text();
  EXPECT_EQ(run.States(0), "SEEN ARMED CAPTURING DONE ");
  EXPECT_EQ(run.events.back().finished().capture(), id);

  const store::Capture capture = Load(id);
  ASSERT_EQ(capture.ranks.size(), 2u);
  EXPECT_EQ(capture.ranks[0].activities.size(), 10u);
  EXPECT_EQ(capture.ranks[1].activities.size(), 20u);
  ASSERT_EQ(capture.ranks[1].losses.size(), 1u);
  EXPECT_EQ(capture.ranks[1].losses[0].stage, "ring");
  EXPECT_EQ(capture.ranks[1].losses[0].kind, "kernel");
  EXPECT_EQ(capture.ranks[1].losses[0].records, 5u);
  EXPECT_TRUE(capture.missing_ranks.empty());
}

TEST_F(IngestTest, NoRankStartsBeforeAllAreArmedAndT0LiesAhead) {
  Serve();
  FakeDaemon& a = DaemonWithRanks("a", 0, 1, 2);
  FakeDaemon& b = DaemonWithRanks("b", 1, 1, 2);
  auto running = Trace();
  const std::string id = ArmAll(a);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const JobTime before = clock_.Now();
  ArmAll(b);
  const v1::Start start_a = WaitForStart(a);
  const v1::Start start_b = WaitForStart(b);
  EXPECT_EQ(start_a.t0_ns(), start_b.t0_ns()) << "all ranks start at one time";
  EXPECT_GE(start_a.t0_ns(), (before + Nanos::Millis(50)).ns());
  a.SendEnd(1, id, 0);
  b.SendEnd(1, id, 1);
  EXPECT_EQ(running.get().finished.outcome(), v1::TraceFinished::COMPLETE);
}

TEST_F(IngestTest, StartAtIsTheEarliestT0) {
  Serve();
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 1, 1);
  const JobTime at = clock_.Now() + Nanos::Millis(400);
  auto running = Trace(Nanos::Millis(20), [&](v1::TraceRequest& r) { r.set_start_at_unix_ns(at.ns()); });
  const std::string id = ArmAll(daemon);
  EXPECT_EQ(WaitForStart(daemon).t0_ns(), at.ns());
  daemon.SendEnd(1, id, 0);
  running.get();
}

TEST_F(IngestTest, RanksThatDoNotArmAreNamedAndTheOthersGoOn) {
  Serve();
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 3, 4);
  auto running = Trace();
  const auto arm = daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_arm(); }).arm();
  daemon.SendState(arm.capture(), 0, v1::RankState::ARMED);
  daemon.SendState(arm.capture(), 1, v1::RankState::FAILED, "CUPTI is held by another tool");
  EXPECT_GT(WaitForStart(daemon).t0_ns(), 0);
  daemon.SendEnd(1, arm.capture(), 0);
  const TraceRun run = running.get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::PARTIAL);
  EXPECT_THAT(run.finished.text(), HasSubstr("rank 3 of job job reached no daemon"));
  EXPECT_THAT(run.finished.text(), HasSubstr("rank 1 failed: CUPTI is held by another tool"));
  EXPECT_THAT(run.finished.text(), HasSubstr("rank 2 gone: did not arm within 300 ms"));
  const store::Capture capture = Load(arm.capture());
  EXPECT_EQ(capture.missing_ranks, (std::vector<RankId>{RankId(1), RankId(2), RankId(3)}));
}

TEST_F(IngestTest, WhenNobodyArmsTheCaptureEndsAndSaysSo) {
  Serve();
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 1, 1);
  auto running = Trace();
  EXPECT_TRUE(daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_arm(); }).has_arm());
  EXPECT_TRUE(daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_stop() && m.stop().abort(); }).has_stop());
  const TraceRun run = running.get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::TIMED_OUT);
  EXPECT_EQ(run.finished.t0_ns(), 0);
}

TEST_F(IngestTest, ARequestThatMatchesNothingSaysWhatThereIs) {
  Serve();
  DaemonWithRanks("n0", 0, 2, 2);
  const TraceRun run = Trace(Nanos::Millis(10), [](v1::TraceRequest& r) { r.set_job("other"); }).get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::NO_SUCH_JOB);
  EXPECT_THAT(run.finished.text(), HasSubstr("job (ranks 0, 1)"));
}

TEST_F(IngestTest, ABatchSentAgainAfterAReconnectIsStoredOnce) {
  Serve();
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 1, 1);
  auto running = Trace(Nanos::Millis(300));
  const std::string id = ArmAll(daemon);
  WaitForStart(daemon);
  daemon.SendBatch(1, id, 0, Kernels(10), 10);
  daemon.SendBatch(2, id, 0, Kernels(10, 100), 10);
  EXPECT_TRUE(daemon.WaitForAck(2));
  daemon.Break();
  const v1::Register again = daemon.Connect();
  EXPECT_EQ(again.acked_sequence(), 2u);
  daemon.SendRanks(0, 1, 1);
  daemon.SendBatch(2, id, 0, Kernels(10, 100), 10);
  daemon.SendBatch(3, id, 0, Kernels(10, 200), 10);
  daemon.SendEnd(4, id, 0);
  EXPECT_TRUE(daemon.WaitForAck(4));
  EXPECT_EQ(running.get().finished.outcome(), v1::TraceFinished::COMPLETE);
  EXPECT_EQ(Load(id).ranks[0].activities.size(), 30u);
}

TEST_F(IngestTest, TheStartReachesADaemonThatWasAwayForAMoment) {
  SessionLimits limits = Quick();
  limits.arm_timeout = Nanos::Seconds(5);
  Serve(limits);
  FakeDaemon& a = DaemonWithRanks("a", 0, 1, 2);
  FakeDaemon& b = DaemonWithRanks("b", 1, 1, 2);
  auto running = Trace(Nanos::Millis(500));
  const std::string id = ArmAll(a);
  a.Break();
  for (int i = 0; i < 200 && hub_->Status("").daemons_size() > 1; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ArmAll(b);
  const v1::Start start = WaitForStart(b);
  a.Connect();
  EXPECT_EQ(WaitForStart(a).t0_ns(), start.t0_ns());
  a.SendEnd(1, id, 0);
  b.SendEnd(1, id, 1);
  EXPECT_EQ(running.get().finished.outcome(), v1::TraceFinished::COMPLETE);
}

TEST_F(IngestTest, AGapsLossesAreCountedAndItsDefinitionsKept) {
  Serve();
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 1, 1);
  auto running = Trace();
  const std::string id = ArmAll(daemon);
  WaitForStart(daemon);
  v1::FromDaemon message;
  v1::Gap& gap = *message.mutable_gap();
  gap.set_first_sequence(1);
  gap.set_last_sequence(7);
  gap.set_capture(id);
  *gap.mutable_process() = FakeDaemon::Process(0);
  const columns::StringDefinition name = {9, "gemm"};
  columns::EncodeStrings(1, {&name, 1}, *gap.mutable_definitions());
  v1::Loss& loss = *gap.add_losses();
  loss.set_stage("spool");
  loss.set_kind(2);
  loss.set_records(70);
  daemon.Write(message);
  std::vector<uint64_t> row(columns::Schema(columns::Kind::kKernel).size(), 0);
  row[columns::kernel::kName] = 9;
  columns::BlockBuilder builder(columns::Kind::kKernel);
  builder.Append(row);
  std::string block;
  builder.Encode(1, 0, block);
  daemon.SendBatch(8, id, 0, block, 1);
  daemon.SendEnd(9, id, 0, /*lost=*/3);
  const TraceRun run = running.get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::COMPLETE);
  const store::Capture capture = Load(id);
  ASSERT_EQ(capture.ranks[0].activities.size(), 1u);
  EXPECT_EQ(capture.Text(capture.ranks[0].activities[0].name), "gemm") << "the definition came before the first batch";
  uint64_t lost = 0;
  for (const store::Loss& l : capture.ranks[0].losses) lost += l.records;
  EXPECT_EQ(lost, 73u);
}

TEST_F(IngestTest, SequencesThatNeverCameAreTold) {
  Serve();
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 1, 1);
  auto running = Trace();
  const std::string id = ArmAll(daemon);
  WaitForStart(daemon);
  daemon.SendBatch(1, id, 0, Kernels(1), 1);
  daemon.SendBatch(5, id, 0, Kernels(1), 1);
  daemon.SendEnd(6, id, 0);
  running.get();
  const store::Capture capture = Load(id);
  ASSERT_EQ(capture.ranks[0].losses.size(), 1u);
  EXPECT_THAT(capture.ranks[0].losses[0].reason, HasSubstr("3 batches"));
}

TEST_F(IngestTest, GarbageInABatchIsCountedAcknowledgedAndNeverStored) {
  Serve();
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 1, 1);
  auto running = Trace();
  const std::string id = ArmAll(daemon);
  WaitForStart(daemon);
  daemon.SendBatch(1, id, 0, "these bytes are no block, however long they may be for that", 12);
  daemon.SendBatch(2, id, 55, Kernels(3), 3);
  daemon.SendBatch(3, "no-such-capture", 0, Kernels(3), 3);
  daemon.SendBatch(4, id, 0, Kernels(2), 2);
  daemon.SendEnd(5, id, 0);
  EXPECT_TRUE(daemon.WaitForAck(5));
  EXPECT_EQ(running.get().finished.outcome(), v1::TraceFinished::COMPLETE);
  const store::Capture capture = Load(id);
  EXPECT_EQ(capture.ranks[0].activities.size(), 2u);
  ASSERT_EQ(capture.ranks[0].losses.size(), 1u);
  EXPECT_EQ(capture.ranks[0].losses[0].stage, "wire");
  EXPECT_EQ(capture.ranks[0].losses[0].records, 12u);
}

TEST_F(IngestTest, ADaemonThatDiesMidCaptureLeavesAPartialCapture) {
  Serve();
  FakeDaemon& a = DaemonWithRanks("a", 0, 1, 2);
  FakeDaemon& b = DaemonWithRanks("b", 1, 1, 2);
  auto running = Trace();
  const std::string id = ArmAll(a);
  ArmAll(b);
  WaitForStart(a);
  a.SendBatch(1, id, 0, Kernels(4), 4);
  EXPECT_TRUE(a.WaitForAck(1));
  a.Break();
  b.SendEnd(1, id, 1);
  const TraceRun run = running.get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::PARTIAL);
  EXPECT_THAT(run.finished.text(), HasSubstr("rank 0 gone"));
  const store::Capture capture = Load(id);
  EXPECT_EQ(capture.ranks[0].activities.size(), 4u) << "what was captured is kept";
  EXPECT_EQ(capture.missing_ranks, (std::vector<RankId>{RankId(0)}));
}

TEST_F(IngestTest, ARankThatDiedIsWaitedForOnlyBriefly) {
  SessionLimits limits = Quick();
  limits.quiet = Nanos::Seconds(30);
  Serve(limits);
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 2, 2);
  auto running = Trace(Nanos::Seconds(30));
  const std::string id = ArmAll(daemon);
  WaitForStart(daemon);
  daemon.SendState(id, 0, v1::RankState::GONE, "it was killed");
  daemon.SendEnd(1, id, 0);
  daemon.SendState(id, 1, v1::RankState::GONE, "it was killed");
  const TraceRun run = running.get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::PARTIAL) << "and not after 30 s: nobody is left to capture";
  EXPECT_THAT(run.finished.text(), HasSubstr("ranks 0, 1 gone: it was killed"));
}

TEST_F(IngestTest, StopEndsACaptureEarlyAndKeepsIt) {
  Serve();
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 1, 1);
  auto running = Trace(Nanos::Seconds(60));
  const std::string id = ArmAll(daemon);
  WaitForStart(daemon);
  daemon.SendBatch(1, id, 0, Kernels(4), 4);
  EXPECT_TRUE(daemon.WaitForAck(1));
  grpc::ClientContext context;
  v1::StopRequest request;
  request.set_capture(id);
  v1::StopReply reply;
  EXPECT_TRUE(stub_->Stop(&context, request, &reply).ok());
  const auto stop = daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_stop(); });
  EXPECT_FALSE(stop.stop().abort());
  daemon.SendEnd(2, id, 0);
  const TraceRun run = running.get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::COMPLETE);
  EXPECT_EQ(Load(id).ranks[0].activities.size(), 4u);
}

TEST_F(IngestTest, AnAskerThatLeavesStopsItsCapture) {
  Serve();
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 1, 1);
  v1::TraceRequest request;
  request.set_duration_ns(Nanos::Seconds(60).ns());
  grpc::ClientContext context;
  auto reader = stub_->Trace(&context, request);
  const std::string id = ArmAll(daemon);
  WaitForStart(daemon);
  context.TryCancel();
  EXPECT_TRUE(daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_stop(); }).has_stop());
  daemon.SendEnd(1, id, 0);
  for (int i = 0; i < 400 && !fs::exists(folder_ + "/captures/" + id + "/records/manifest.json"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(Load(id).ranks.size(), 1u) << "what there is, is kept";
  reader->Finish();
}

TEST_F(IngestTest, OneProcessIsInOneCaptureAtATime) {
  Serve();
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 1, 1);
  auto running = Trace();
  const std::string id = ArmAll(daemon);
  const TraceRun second = Trace().get();
  EXPECT_EQ(second.finished.outcome(), v1::TraceFinished::FAILED);
  EXPECT_THAT(second.finished.text(), HasSubstr("is being captured already (" + id));
  WaitForStart(daemon);
  daemon.SendEnd(1, id, 0);
  EXPECT_EQ(running.get().finished.outcome(), v1::TraceFinished::COMPLETE);
}

TEST_F(IngestTest, FetchSendsTheRecordsAndTheManifestLast) {
  Serve();
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 1, 1);
  auto running = Trace();
  const std::string id = ArmAll(daemon);
  WaitForStart(daemon);
  daemon.SendBatch(1, id, 0, Kernels(500), 500);
  daemon.SendEnd(2, id, 0);
  running.get();
  grpc::ClientContext context;
  v1::FetchRequest request;
  request.set_capture(id);
  auto reader = stub_->Fetch(&context, request);
  v1::FetchChunk chunk;
  std::vector<std::string> names;
  std::map<std::string, std::string> files;
  while (reader->Read(&chunk)) {
    if (!chunk.name().empty()) names.push_back(chunk.name());
    files[names.back()] += chunk.data();
  }
  EXPECT_TRUE(reader->Finish().ok());
  ASSERT_EQ(names.size(), 2u);
  EXPECT_EQ(names[1], "manifest.json");
  EXPECT_EQ(files[names[0]], Kernels(500));
}

TEST_F(IngestTest, FetchLeavesItsFolderForNobody) {
  Serve();
  for (const char* bad : {"../captures", "", ".", "none", "a/b"}) {
    grpc::ClientContext context;
    v1::FetchRequest request;
    request.set_capture(bad);
    auto reader = stub_->Fetch(&context, request);
    v1::FetchChunk chunk;
    EXPECT_FALSE(reader->Read(&chunk));
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::NOT_FOUND) << bad;
  }
}

TEST_F(IngestTest, WithoutTheTokenNothingIsAnswered) {
  Serve(Quick(), "0123456789abcdef0123456789abcdef");
  FakeDaemon& daemon = Daemon("n0", 1);
  EXPECT_EQ(daemon.Connect("wrong-token-wrong-token").credits(), 0u);
  EXPECT_TRUE(daemon.WaitForEnd());
  grpc::ClientContext context;
  v1::StatusReply reply;
  EXPECT_EQ(stub_->Status(&context, {}, &reply).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  grpc::ClientContext ping_context;
  v1::PingReply pong;
  EXPECT_EQ(v1::Ingest::NewStub(Channel())->Ping(&ping_context, {}, &pong).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  FakeDaemon& right = Daemon("n0", 2);
  EXPECT_GT(right.Connect("0123456789abcdef0123456789abcdef").credits(), 0u);
}

TEST_F(IngestTest, AnotherProtocolIsRefusedInWords) {
  Serve();
  FakeDaemon& daemon = Daemon("n0", 1);
  daemon.protocol_min = 9;
  daemon.protocol_max = 12;
  EXPECT_THAT(daemon.Connect().refused(), HasSubstr("protocol 1 to 1 and the daemon 9 to 12"));
}

TEST_F(IngestTest, PingStampsAreInOrder) {
  Serve();
  grpc::ClientContext context;
  v1::PingRequest request;
  request.set_t1_ns(clock_.Now().ns());
  v1::PingReply reply;
  ASSERT_TRUE(v1::Ingest::NewStub(Channel())->Ping(&context, request, &reply).ok());
  EXPECT_EQ(reply.t1_ns(), request.t1_ns());
  EXPECT_GE(reply.t2_ns(), request.t1_ns());
  EXPECT_GE(reply.t3_ns(), reply.t2_ns());
  EXPECT_LE(reply.t3_ns(), clock_.Now().ns());
}

TEST_F(IngestTest, SixtyFourDaemonsAreCapturedTogether) {
  Serve();
  constexpr int kDaemons = 64;
  for (int i = 0; i < kDaemons; ++i) {
    FakeDaemon& daemon = Daemon("n" + std::to_string(i), static_cast<uint64_t>(i) + 1);
    ASSERT_EQ(daemon.Connect().refused(), "");
    daemon.SendRanks(i, 1, kDaemons);
  }
  for (int i = 0; i < 400 && SeenRanks() < kDaemons; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  auto running = Trace(Nanos::Millis(20), [](v1::TraceRequest& r) { r.set_arm_timeout_ns(Nanos::Seconds(20).ns()); });
  std::string id;
  for (auto& daemon : daemons_) id = ArmAll(*daemon);
  for (int i = 0; i < kDaemons; ++i) {
    ASSERT_GT(WaitForStart(*daemons_[static_cast<size_t>(i)]).t0_ns(), 0);
    daemons_[static_cast<size_t>(i)]->SendBatch(1, id, i, Kernels(100), 100);
    daemons_[static_cast<size_t>(i)]->SendEnd(2, id, i);
  }
  const TraceRun run = running.get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::COMPLETE) << run.finished.text();
  const store::Capture capture = Load(id);
  size_t rows = 0;
  for (const auto& rank : capture.ranks) rows += rank.activities.size();
  EXPECT_EQ(rows, 6400u);
}

TEST_F(IngestTest, AFullDiskEndsTheCaptureWithTheReasonAndTheNextOneWorks) {
  Serve();
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 1, 1);
  auto running = Trace(Nanos::Seconds(30));
  const std::string id = ArmAll(daemon);
  WaitForStart(daemon);
  // A folder that is gone stands for any disk that fails.
  fs::rename(folder_ + "/captures/" + id + "/records", folder_ + "/captures/" + id + "/away");
  daemon.SendBatch(1, id, 0, Kernels(4), 4);
  EXPECT_TRUE(daemon.WaitForAck(1)) << "it would be sent for ever";
  EXPECT_TRUE(daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_stop(); }).has_stop());
  daemon.SendEnd(2, id, 0);
  const TraceRun run = running.get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::FAILED);
  EXPECT_THAT(run.finished.text(), HasSubstr("No such file"));
  auto next = Trace();
  const std::string id2 = ArmAll(daemon);
  WaitForStart(daemon);
  daemon.SendBatch(3, id2, 0, Kernels(4), 4);
  daemon.SendEnd(4, id2, 0);
  EXPECT_EQ(next.get().finished.outcome(), v1::TraceFinished::COMPLETE);
}

TEST_F(IngestTest, ShutdownEndsARunningCaptureAndKeepsWhatItHas) {
  Serve();
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 1, 1);
  auto running = Trace(Nanos::Seconds(60));
  const std::string id = ArmAll(daemon);
  WaitForStart(daemon);
  daemon.SendBatch(1, id, 0, Kernels(4), 4);
  EXPECT_TRUE(daemon.WaitForAck(1));
  hub_->Shutdown();
  const TraceRun run = running.get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::PARTIAL);
  EXPECT_EQ(Load(id).ranks[0].activities.size(), 4u);
}

}  // namespace
}  // namespace lockstep::ingest
