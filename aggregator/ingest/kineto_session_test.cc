// Captures with ranks that PyTorch's profiler captures: a common later start, and trace files whole or not at all.
#include <filesystem>
#include <fstream>
#include <string>

#include "aggregator/ingest/ingest_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::ingest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class KinetoSessionTest : public IngestTest {
 protected:
  // Rank 0 has our client, rank 1 only asks for on-demand traces.
  FakeDaemon& MixedDaemon() {
    FakeDaemon& daemon = Daemon("n0", 1);
    EXPECT_EQ(daemon.Connect().refused(), "");
    v1::FromDaemon message;
    for (int r = 0; r < 2; ++r) {
      v1::Rank& rank = *message.mutable_ranks()->add_ranks();
      *rank.mutable_process() = FakeDaemon::Process(r);
      rank.set_rank(r);
      rank.set_world_size(2);
      rank.set_job("job");
      rank.set_uid(1000);
      rank.set_incarnation(1);
      rank.set_via(r == 0 ? "cupti" : "kineto");
      rank.set_kineto(r == 1);
    }
    daemon.Write(message);
    for (int i = 0; i < 200 && SeenRanks() < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return daemon;
  }
  std::string BeginMixed(FakeDaemon& daemon, Nanos lead) {
    const auto message = daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_arm(); });
    EXPECT_EQ(message.arm().processes_size(), 2);
    EXPECT_EQ(message.arm().kineto_size(), 1);
    EXPECT_EQ(message.arm().kineto(0).pid(), 1001);
    const std::string id = message.arm().capture();
    daemon.SendState(id, 0, v1::RankState::ARMED);
    daemon.SendState(id, 1, v1::RankState::ARMED, "", lead);
    return id;
  }
  static void Nothing(v1::TraceFile&) {}
  static void Last(v1::TraceFile& piece) { piece.set_last(true); }
  std::vector<std::string> Records(const std::string& id) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ + "/captures/" + id + "/records")) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
};

TEST_F(KinetoSessionTest, AllStartWhenTheSlowestWayCan) {
  Serve();
  FakeDaemon& daemon = MixedDaemon();
  auto running = Trace();
  const JobTime before = clock_.Now();
  const std::string id = BeginMixed(daemon, Nanos::Millis(1300));
  const v1::Start start = WaitForStart(daemon);
  EXPECT_GE(JobTime(start.t0_ns()) - before, Nanos::Millis(1300));
  daemon.SendState(id, 0, v1::RankState::CAPTURING);
  daemon.SendState(id, 1, v1::RankState::CAPTURING);
  daemon.SendBatch(1, id, 0, Kernels(10), 10);
  daemon.SendTraceFile(2, id, 1, 0, "abc", Nothing);
  daemon.SendTraceFile(3, id, 1, 3, "defg", Last);
  daemon.SendEnd(4, id, 0);
  daemon.SendEnd(5, id, 1);
  EXPECT_TRUE(daemon.WaitForAck(5));
  const TraceRun run = running.get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::COMPLETE) << run.finished.text();
  std::string phases;
  for (const v1::TraceEvent& e : run.events) {
    if (e.has_progress() && phases.find(e.progress().phase()) == std::string::npos) phases += e.progress().phase() + " ";
    if (e.has_rank() && e.rank().rank() == 1 && e.rank().state().state() == v1::RankState::DONE) {
      EXPECT_EQ(e.rank().state().trace_bytes(), 7u);
    }
  }
  EXPECT_EQ(phases, "arming starting capturing draining analysing ");
  EXPECT_THAT(Records(id), ElementsAre("manifest.json", "r00000.p00000.1.lsr", "r00001.p00001.kineto.json.gz"));
  std::ifstream file(folder_ + "/captures/" + id + "/records/r00001.p00001.kineto.json.gz");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "abcdefg");
  const store::Capture records = Load(id);
  EXPECT_EQ(records.ranks.size(), 1u);
  EXPECT_THAT(records.missing_ranks, ElementsAre(RankId(1))) << "whoever cannot read its trace says so";
  // And it gets to the CLI.
  grpc::ClientContext context;
  v1::FetchRequest request;
  request.set_capture(id);
  auto reader = stub_->Fetch(&context, request);
  v1::FetchChunk chunk;
  std::map<std::string, std::string> fetched;
  std::string name;
  while (reader->Read(&chunk)) {
    if (!chunk.name().empty()) name = chunk.name();
    fetched[name] += chunk.data();
  }
  EXPECT_EQ(fetched["r00001.p00001.kineto.json.gz"], "abcdefg");
}

TEST_F(KinetoSessionTest, ALeadThatNobodyCanNeedIsCut) {
  SessionLimits limits = Quick();
  limits.longest_lead = Nanos::Millis(100);
  Serve(limits);
  FakeDaemon& daemon = MixedDaemon();
  auto running = Trace();
  const std::string id = BeginMixed(daemon, Nanos::Seconds(100'000));
  const v1::Start start = WaitForStart(daemon);
  EXPECT_LT(JobTime(start.t0_ns()) - clock_.Now(), Nanos::Seconds(1));
  daemon.SendEnd(1, id, 0);
  daemon.SendEnd(2, id, 1);
  running.get();
}

TEST_F(KinetoSessionTest, AFileThatIsGivenUpIsThrownAwayAndItsRankIsMissing) {
  Serve();
  FakeDaemon& daemon = MixedDaemon();
  auto running = Trace();
  const std::string id = BeginMixed(daemon, Nanos());
  WaitForStart(daemon);
  daemon.SendBatch(1, id, 0, Kernels(10), 10);
  daemon.SendTraceFile(2, id, 1, 0, "abc", Nothing);
  daemon.SendTraceFile(3, id, 1, 3, "", [](v1::TraceFile& piece) { piece.set_given_up("no room"); });
  daemon.SendEnd(4, id, 0);
  daemon.SendEnd(5, id, 1);
  const TraceRun run = running.get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::PARTIAL);
  EXPECT_THAT(run.finished.text(), HasSubstr("rank 1 finished, and"));
  EXPECT_THAT(Records(id), ElementsAre("manifest.json", "r00000.p00000.1.lsr"));
}

TEST_F(KinetoSessionTest, PiecesOutOfOrderAreNoFile) {
  Serve();
  FakeDaemon& daemon = MixedDaemon();
  auto running = Trace();
  const std::string id = BeginMixed(daemon, Nanos());
  WaitForStart(daemon);
  daemon.SendTraceFile(1, id, 1, 0, "abc", Nothing);
  daemon.SendTraceFile(2, id, 1, 4, "e", Last);
  daemon.SendTraceFile(3, id, 1, 5, "f", Last);
  // Of a rank that is captured otherwise.
  daemon.SendTraceFile(4, id, 0, 0, "x", Last);
  daemon.SendEnd(5, id, 0);
  daemon.SendEnd(6, id, 1);
  const TraceRun run = running.get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::PARTIAL);
  EXPECT_THAT(Records(id), ElementsAre("manifest.json"));
}

TEST_F(KinetoSessionTest, WhatWasAskedForDecidesTheWay) {
  Serve();
  FakeDaemon& daemon = MixedDaemon();
  auto running = Trace(Nanos::Millis(50), [](v1::TraceRequest& r) { r.set_via("kineto"); });
  const auto message = daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_arm(); });
  ASSERT_EQ(message.arm().processes_size(), 1) << "rank 0 does not ask for on-demand traces";
  EXPECT_EQ(message.arm().processes(0).pid(), 1001);
  const std::string id = message.arm().capture();
  daemon.SendState(id, 1, v1::RankState::ARMED);
  WaitForStart(daemon);
  daemon.SendTraceFile(1, id, 1, 0, "x", Last);
  daemon.SendEnd(2, id, 1);
  const TraceRun run = running.get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::PARTIAL);
  EXPECT_THAT(run.finished.text(), HasSubstr("rank 0 failed: it does not ask for PyTorch's on-demand traces"));
}

TEST_F(KinetoSessionTest, AWayThatLeadsToNobodyIsRefusedAtOnce) {
  Serve();
  DaemonWithRanks("n0", 0, 2, 2);
  const TraceRun run = Trace(Nanos::Millis(50), [](v1::TraceRequest& r) { r.set_via("kineto"); }).get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::FAILED);
  EXPECT_THAT(run.finished.text(), HasSubstr("KINETO_USE_DAEMON=1"));
}

}  // namespace
}  // namespace lockstep::ingest
