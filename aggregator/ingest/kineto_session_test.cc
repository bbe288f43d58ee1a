// Tests captures with ranks that PyTorch's profiler records: the common later start, and trace files that
// arrive whole or not at all.
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "aggregator/ingest/ingest_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::aggregator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class KinetoSessionTest : public IngestTest {
 protected:
  // A daemon with ranks 0 and 1 of a job; `tell` sets how each can be captured.
  FakeDaemon& DaemonOfTwo(const std::function<void(v1::Rank&)>& set_path) {
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
      set_path(rank);
    }
    daemon.Write(message);
    for (int i = 0; i < 200 && SeenRanks() < 2; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return daemon;
  }
  // Rank 0 has our client; rank 1 only polls for on-demand traces.
  FakeDaemon& MixedDaemon() {
    return DaemonOfTwo([](v1::Rank& rank) {
      rank.set_via(rank.rank() == 0 ? "cupti" : "kineto");
      rank.set_kineto(rank.rank() == 1);
    });
  }
  std::string BeginMixed(FakeDaemon& daemon, Nanos lead) {
    const auto message = daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_arm(); });
    EXPECT_EQ(message.arm().processes_size(), 2);
    EXPECT_EQ(message.arm().kineto_size(), 1);
    EXPECT_EQ(message.arm().kineto(0).pid(), 1001);
    std::string id = message.arm().capture();
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

TEST_F(KinetoSessionTest, StartsWhenTheSlowestPathCan) {
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
    if (e.has_progress() && phases.find(e.progress().phase()) == std::string::npos)
      phases += e.progress().phase() + " ";
    if (e.has_rank() && e.rank().rank() == 1 && e.rank().state().state() == v1::RankState::DONE) {
      EXPECT_EQ(e.rank().state().trace_bytes(), 7u);
    }
  }
  EXPECT_EQ(phases, "arming starting capturing draining analysing ");
  EXPECT_THAT(Records(id),
              ElementsAre("manifest.json", "r00000.p00000.1.lsr", "r00001.p00001.kineto.json.gz"));
  std::ifstream file(folder_ + "/captures/" + id + "/records/r00001.p00001.kineto.json.gz");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "abcdefg");
  const capture::Capture records = Load(id);
  EXPECT_EQ(records.ranks.size(), 1u);
  EXPECT_THAT(records.missing_ranks, ElementsAre(RankId(1)))
      << "a reader that cannot use the trace reports it";
  // The CLI can fetch the file.
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

TEST_F(KinetoSessionTest, LimitsTheLead) {
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

TEST_F(KinetoSessionTest, DiscardsAnAbandonedFileAndReportsItsRankAsMissing) {
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
  EXPECT_THAT(run.finished.text(), HasSubstr("rank 1 finished, but"));
  EXPECT_THAT(Records(id), ElementsAre("manifest.json", "r00000.p00000.1.lsr"));
}

TEST_F(KinetoSessionTest, DiscardsAFileWithPiecesOutOfOrder) {
  Serve();
  FakeDaemon& daemon = MixedDaemon();
  auto running = Trace();
  const std::string id = BeginMixed(daemon, Nanos());
  WaitForStart(daemon);
  daemon.SendTraceFile(1, id, 1, 0, "abc", Nothing);
  daemon.SendTraceFile(2, id, 1, 4, "e", Last);
  daemon.SendTraceFile(3, id, 1, 5, "f", Last);
  // A trace file of a rank that its client captures.
  daemon.SendTraceFile(4, id, 0, 0, "x", Last);
  daemon.SendEnd(5, id, 0);
  daemon.SendEnd(6, id, 1);
  const TraceRun run = running.get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::PARTIAL);
  EXPECT_THAT(Records(id), ElementsAre("manifest.json"));
}

TEST_F(KinetoSessionTest, TheRequestDecidesThePath) {
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
  EXPECT_THAT(run.finished.text(),
              HasSubstr("rank 0 failed: it does not poll for PyTorch's on-demand traces"));
}

TEST_F(KinetoSessionTest, RefusesAPathThatReachesNoRank) {
  Serve();
  DaemonWithRanks("n0", 0, 2, 2);
  const TraceRun run = Trace(Nanos::Millis(50), [](v1::TraceRequest& r) { r.set_via("kineto"); }).get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::FAILED);
  EXPECT_THAT(run.finished.text(), HasSubstr("KINETO_USE_DAEMON=1"));
}

class HeldSessionTest : public KinetoSessionTest {
 protected:
  // Both ranks have our client, and both poll for on-demand traces.
  FakeDaemon& DaemonWithBothPaths() {
    return DaemonOfTwo([](v1::Rank& rank) {
      rank.set_via("cupti");
      rank.set_kineto(true);
    });
  }
  enum class Via { kClient, kSwitchedToKineto };
  static void SendHeld(FakeDaemon& daemon, const std::string& capture, int rank, v1::RankState::State state,
                       Via via, Nanos lead = {}) {
    v1::FromDaemon message;
    message.mutable_states()->set_capture(capture);
    v1::RankState& s = *message.mutable_states()->add_states();
    *s.mutable_process() = FakeDaemon::Process(rank);
    s.set_state(state);
    s.set_text("CUPTI's subscriber is nsys");
    s.set_refusal(v1::RankState::HELD);
    s.set_holder("nsys");
    s.set_went_over(via == Via::kSwitchedToKineto);
    s.set_lead_ns(lead.ns());
    daemon.Write(message);
  }
};

TEST_F(HeldSessionTest, ARankSwitchesToTheProfilerAndAllShareItsStart) {
  Serve();
  FakeDaemon& daemon = DaemonWithBothPaths();
  auto running = Trace();
  const auto message = daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_arm(); });
  EXPECT_EQ(message.arm().kineto_size(), 0);
  EXPECT_EQ(message.arm().kineto_if_held_size(), 2);
  const std::string id = message.arm().capture();
  const JobTime before = clock_.Now();
  daemon.SendState(id, 0, v1::RankState::ARMED);
  SendHeld(daemon, id, 1, v1::RankState::SEEN, Via::kSwitchedToKineto);
  SendHeld(daemon, id, 1, v1::RankState::ARMED, Via::kSwitchedToKineto, Nanos::Millis(1300));
  const v1::Start start = WaitForStart(daemon);
  EXPECT_GE(JobTime(start.t0_ns()) - before, Nanos::Millis(1300));
  daemon.SendBatch(1, id, 0, Kernels(10), 10);
  daemon.SendTraceFile(2, id, 1, 0, "abc", Last);
  daemon.SendEnd(3, id, 0);
  daemon.SendEnd(4, id, 1);
  const TraceRun run = running.get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::COMPLETE) << run.finished.text();
  EXPECT_EQ(run.States(1), "SEEN SEEN ARMED DONE ") << "the second reports the new path";
  EXPECT_THAT(Records(id),
              ElementsAre("manifest.json", "r00000.p00000.1.lsr", "r00001.p00001.kineto.json.gz"));
  std::ifstream manifest(folder_ + "/captures/" + id + "/records/manifest.json");
  const std::string text(std::istreambuf_iterator<char>(manifest), {});
  EXPECT_THAT(
      text,
      HasSubstr("rank 1 was captured by PyTorch's profiler, since its client found CUPTI held by nsys"));
}

TEST_F(HeldSessionTest, NoRankSwitchesIfTheClientIsRequired) {
  Serve();
  FakeDaemon& daemon = DaemonWithBothPaths();
  auto running = Trace(Nanos::Millis(50), [](v1::TraceRequest& r) { r.set_via("cupti"); });
  const auto message = daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_arm(); });
  EXPECT_EQ(message.arm().kineto_if_held_size(), 0);
  const std::string id = message.arm().capture();
  daemon.SendState(id, 0, v1::RankState::ARMED);
  SendHeld(daemon, id, 1, v1::RankState::FAILED, Via::kClient);
  WaitForStart(daemon);
  daemon.SendEnd(1, id, 0);
  const TraceRun run = running.get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::PARTIAL);
  EXPECT_THAT(run.finished.text(),
              HasSubstr("rank 1 failed: CUPTI's subscriber is nsys; --via auto captures it"));
}

class KinetoStepsTest : public KinetoSessionTest {
 protected:
  static void Steps(v1::TraceRequest& request) {
    v1::Trigger& trigger = *request.mutable_trigger();
    trigger.set_begin(v1::Trigger::AT_COMMON_STEP);
    trigger.set_end(v1::Trigger::AFTER_STEPS);
    trigger.set_steps(3);
    trigger.set_timeout_ns(Nanos::Seconds(20).ns());
  }
};

TEST_F(KinetoStepsTest, ProfilersWithoutClientsCountIterations) {
  Serve();
  FakeDaemon& daemon = MixedDaemon();
  auto running = Trace(Nanos::Millis(50), [](v1::TraceRequest& r) {
    Steps(r);
    r.add_ranks(1);
  });
  const auto message = daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_arm(); });
  const std::string id = message.arm().capture();
  daemon.SendState(id, 1, v1::RankState::ARMED, "", Nanos::Seconds(15));
  const v1::Start start = WaitForStart(daemon);
  EXPECT_EQ(start.kineto_begin(), v1::Start::BY_ITERATION);
  EXPECT_EQ(start.kineto_multiple(), 1u) << "no other rank must begin at the same one";
  EXPECT_LT(JobTime(start.t0_ns()) - clock_.Now(), Nanos::Seconds(5))
      << "iterations are waited for from now on";
  daemon.SendState(id, 1, v1::RankState::WAITING);
  daemon.SendTraceFile(1, id, 1, 0, "abc", Last);
  daemon.SendEnd(2, id, 1);
  EXPECT_EQ(running.get().finished.outcome(), v1::TraceFinished::COMPLETE);
}

TEST_F(KinetoStepsTest, BesideClientsTheyRecordAWindowAroundTheAgreedSteps) {
  Serve();
  FakeDaemon& daemon = MixedDaemon();
  auto running = Trace(Nanos::Millis(50), Steps);
  const std::string id = BeginMixed(daemon, Nanos::Millis(800));
  EXPECT_EQ(WaitForStart(daemon).kineto_begin(), v1::Start::LATER);
  v1::FromDaemon report;
  report.mutable_states()->set_capture(id);
  v1::RankState& state = *report.mutable_states()->add_states();
  *state.mutable_process() = FakeDaemon::Process(0);
  state.set_state(v1::RankState::WAITING);
  state.set_step(40);
  state.set_step_ns(Nanos::Millis(100).ns());
  const JobTime before = clock_.Now();
  daemon.Write(report);
  const auto names_step = [](const v1::FromAggregator& m) {
    return m.has_start() && m.start().trigger().begin() == v1::Trigger::AT_STEP;
  };
  const v1::Start agreed = daemon.WaitFor(names_step).start();
  EXPECT_EQ(agreed.kineto_begin(), v1::Start::IN_WINDOW);
  EXPECT_GE(JobTime(agreed.kineto_t0_ns()) - before, Nanos::Millis(800)) << "its profiler needs that long";
  // The window begins before the step and ends after the third one.
  const auto begin_of = [&](uint64_t step) {
    return before + Nanos::Millis(100) * static_cast<int64_t>(step - 40);
  };
  EXPECT_LT(JobTime(agreed.kineto_t0_ns()), begin_of(agreed.trigger().step()));
  EXPECT_GT(JobTime(agreed.kineto_t1_ns()), begin_of(agreed.trigger().step() + 4));
  EXPECT_LT(JobTime(agreed.kineto_t1_ns()) - JobTime(agreed.kineto_t0_ns()), Nanos::Seconds(3));
  daemon.SendTraceFile(1, id, 1, 0, "abc", Last);
  daemon.SendEnd(2, id, 0);
  daemon.SendEnd(3, id, 1);
  running.get();
}

}  // namespace
}  // namespace lockstep::aggregator
