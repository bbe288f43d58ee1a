// Tests the daemons' messages and the CLI's fetches over real gRPC streams: repetitions, gaps, invalid data,
// tokens, and concurrency.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "aggregator/ingest/ingest_fixture.h"
#include "base/service_manager.h"
#include "base/service_manager_fake.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::aggregator {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

using IngestServiceTest = IngestTest;

// Holds the lock of the daemons from its first message until Release.
class StuckConnection final : public DaemonConnection {
 public:
  bool Send(const v1::FromAggregator&) override {
    stuck_.set_value();
    released_.get_future().wait();
    return true;
  }
  void Close() override {}
  void WaitUntilStuck() { stuck_.get_future().wait(); }
  void Release() { released_.set_value(); }

 private:
  std::promise<void> stuck_;
  std::promise<void> released_;
};

TEST_F(IngestServiceTest, StoresAResentBatchOnce) {
  auto [daemon, running, id] = StartCapture(Nanos::Millis(300));
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

TEST_F(IngestServiceTest, CountsTheLossesOfAGapAndKeepsItsDefinitions) {
  auto [daemon, running, id] = StartCapture();
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
  const capture::Capture capture = Load(id);
  ASSERT_EQ(capture.ranks[0].activities.size(), 1u);
  EXPECT_EQ(capture.Text(capture.ranks[0].activities[0].name), "gemm")
      << "the definition came before the first batch";
  uint64_t lost = 0;
  for (const capture::Loss& l : capture.ranks[0].losses) lost += l.records;
  EXPECT_EQ(lost, 73u);
}

TEST_F(IngestServiceTest, ReportsMissingSequences) {
  auto [daemon, running, id] = StartCapture();
  daemon.SendBatch(1, id, 0, Kernels(1), 1);
  daemon.SendBatch(5, id, 0, Kernels(1), 1);
  daemon.SendEnd(6, id, 0);
  running.get();
  const capture::Capture capture = Load(id);
  ASSERT_EQ(capture.ranks[0].losses.size(), 1u);
  EXPECT_THAT(capture.ranks[0].losses[0].reason, HasSubstr("3 batches"));
}

TEST_F(IngestServiceTest, CountsAndAcknowledgesInvalidBatchesWithoutStoring) {
  auto [daemon, running, id] = StartCapture();
  daemon.SendBatch(1, id, 0, "these bytes are no block, however long they may be for that", 12);
  daemon.SendBatch(2, id, 55, Kernels(3), 3);
  daemon.SendBatch(3, "no-such-capture", 0, Kernels(3), 3);
  daemon.SendBatch(4, id, 0, Kernels(2), 2);
  daemon.SendEnd(5, id, 0);
  EXPECT_TRUE(daemon.WaitForAck(5));
  EXPECT_EQ(running.get().finished.outcome(), v1::TraceFinished::COMPLETE);
  const capture::Capture capture = Load(id);
  EXPECT_EQ(capture.ranks[0].activities.size(), 2u);
  ASSERT_EQ(capture.ranks[0].losses.size(), 1u);
  EXPECT_EQ(capture.ranks[0].losses[0].stage, "wire");
  EXPECT_EQ(capture.ranks[0].losses[0].records, 12u);
}

TEST_F(IngestServiceTest, FetchSendsTheRecordsAndTheManifestLast) {
  auto [daemon, running, id] = StartCapture();
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

TEST_F(IngestServiceTest, FetchRefusesPathsOutsideItsFolder) {
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

TEST_F(IngestServiceTest, RefusesCallsWithoutTheToken) {
  Serve(Quick(), "0123456789abcdef0123456789abcdef");
  FakeDaemon& daemon = Daemon("n0", 1);
  EXPECT_EQ(daemon.Connect("wrong-token-wrong-token").credits(), 0u);
  EXPECT_TRUE(daemon.WaitForEnd());
  grpc::ClientContext context;
  v1::StatusReply reply;
  EXPECT_EQ(stub_->Status(&context, {}, &reply).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  grpc::ClientContext ping_context;
  v1::PingReply pong;
  EXPECT_EQ(v1::Ingest::NewStub(Channel())->Ping(&ping_context, {}, &pong).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  FakeDaemon& right = Daemon("n0", 2);
  EXPECT_GT(right.Connect("0123456789abcdef0123456789abcdef").credits(), 0u);
}

TEST_F(IngestServiceTest, RefusesAnotherProtocolWithTheRemedy) {
  Serve();
  FakeDaemon& daemon = Daemon("n0", 1);
  daemon.protocol_min = 9;
  daemon.protocol_max = 12;
  EXPECT_THAT(daemon.Connect().refused(), HasSubstr("protocols 1 to 1 and the daemon 9 to 12"));
}

TEST_F(IngestServiceTest, PingTimeStampsAreInOrder) {
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

TEST_F(IngestServiceTest, CapturesSixtyFourDaemons) {
  Serve();
  constexpr int kDaemons = 64;
  for (int i = 0; i < kDaemons; ++i) {
    FakeDaemon& daemon = Daemon("n" + std::to_string(i), static_cast<uint64_t>(i) + 1);
    ASSERT_EQ(daemon.Connect().refused(), "");
    daemon.SendRanks(i, 1, kDaemons);
  }
  for (int i = 0; i < 400 && SeenRanks() < kDaemons; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  auto running =
      Trace(Nanos::Millis(20), [](v1::TraceRequest& r) { r.set_arm_timeout_ns(Nanos::Seconds(20).ns()); });
  std::string id;
  for (auto& daemon : daemons_) id = ArmAll(*daemon);
  for (int i = 0; i < kDaemons; ++i) {
    ASSERT_GT(WaitForStart(*daemons_[static_cast<size_t>(i)]).t0_ns(), 0);
    daemons_[static_cast<size_t>(i)]->SendBatch(1, id, i, Kernels(100), 100);
    daemons_[static_cast<size_t>(i)]->SendEnd(2, id, i);
  }
  const TraceRun run = running.get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::COMPLETE) << run.finished.text();
  const capture::Capture capture = Load(id);
  size_t rows = 0;
  for (const auto& rank : capture.ranks) rows += rank.activities.size();
  EXPECT_EQ(rows, 6400u);
}

TEST_F(IngestServiceTest, ACaptureBeyondItsSizeEndsAndCountsTheRestAsLost) {
  SessionLimits limits = Quick();
  limits.store.rows = 6;
  auto [daemon, running, id] = StartCapture(Nanos::Seconds(30), limits);
  daemon.SendBatch(1, id, 0, Kernels(4), 4);
  daemon.SendBatch(2, id, 0, Kernels(4), 4);
  EXPECT_TRUE(daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_stop(); }).has_stop());
  daemon.SendEnd(3, id, 0);
  const TraceRun run = running.get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::FAILED);
  EXPECT_THAT(run.finished.text(), HasSubstr("more than 6 records (--capture-records)"));
  const capture::Capture capture = Load(id);
  EXPECT_EQ(capture.ranks.at(0).activities.size(), 4u);
  ASSERT_EQ(capture.ranks.at(0).losses.size(), 1u);
  EXPECT_EQ(capture.ranks.at(0).losses[0].stage, "store");
  EXPECT_EQ(capture.ranks.at(0).losses[0].records, 4u);
}

TEST_F(IngestServiceTest, ReportsToTheWatchdogExceptWhileTheDaemonsAreStuck) {
  Serve();
  FakeServiceManager manager(folder_ + "/notify");
  ingest_->Every(Nanos::Millis(1), [&] {
    (void)hub_->daemons().counts();
    NotifyServiceManager(manager.name(), kServiceAlive);
  });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(manager.Next(), "WATCHDOG=1");
  auto connection = std::make_shared<StuckConnection>();
  v1::DaemonHello hello;
  hello.set_node_id("n0");
  *hello.mutable_version() = DaemonRegistry::Protocol();
  std::thread connecting([&] { hub_->Connect(hello, connection); });
  connection->WaitUntilStuck();
  manager.DropReceived();
  EXPECT_EQ(manager.Next(/*milliseconds=*/30), "nothing");
  connection->Release();
  connecting.join();
  EXPECT_EQ(manager.Next(), "WATCHDOG=1");
  Close();
  manager.DropReceived();
  EXPECT_EQ(manager.Next(/*milliseconds=*/10), "nothing");
}

TEST_F(IngestServiceTest, TimersOfDifferentPeriodsRunSideBySide) {
  Serve();
  std::atomic<int> first = 0, second = 0;
  ingest_->Every(Nanos::Seconds(24 * 3600), [] { ADD_FAILURE() << "a day has not passed"; });
  ingest_->Every(Nanos::Millis(1), [&] { ++first; });
  ingest_->Every(Nanos::Millis(2), [&] { ++second; });
  while (first < 20 || second < 20) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  Close();
  const int last = first;
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(first, last) << "no call after the end";
}

TEST_F(IngestServiceTest, AFullDiskEndsOnlyTheRunningCapture) {
  auto [daemon, running, id] = StartCapture(Nanos::Seconds(30));
  // A missing folder stands for any disk failure.
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

}  // namespace
}  // namespace lockstep::aggregator
