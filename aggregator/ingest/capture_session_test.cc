// Tests captures from ARM to their end over real gRPC streams, with scripted daemons.
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "aggregator/ingest/ingest_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::aggregator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

using CaptureSessionTest = IngestTest;

TEST_F(CaptureSessionTest, WritesRecordsFromArmToClose) {
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

  const capture::Capture capture = Load(id);
  ASSERT_EQ(capture.ranks.size(), 2u);
  EXPECT_EQ(capture.ranks[0].activities.size(), 10u);
  EXPECT_EQ(capture.ranks[1].activities.size(), 20u);
  ASSERT_EQ(capture.ranks[1].losses.size(), 1u);
  EXPECT_EQ(capture.ranks[1].losses[0].stage, "ring");
  EXPECT_EQ(capture.ranks[1].losses[0].kind, "kernel");
  EXPECT_EQ(capture.ranks[1].losses[0].records, 5u);
  EXPECT_TRUE(capture.missing_ranks.empty());
}

TEST_F(CaptureSessionTest, StartsAfterAllRanksArmedWithT0InTheFuture) {
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

TEST_F(CaptureSessionTest, StartAtIsTheEarliestT0) {
  Serve();
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 1, 1);
  const JobTime at = clock_.Now() + Nanos::Millis(400);
  auto running = Trace(Nanos::Millis(20), [&](v1::TraceRequest& r) { r.set_start_at_unix_ns(at.ns()); });
  const std::string id = ArmAll(daemon);
  EXPECT_EQ(WaitForStart(daemon).t0_ns(), at.ns());
  daemon.SendEnd(1, id, 0);
  running.get();
}

TEST_F(CaptureSessionTest, NamesRanksThatDoNotArmAndContinuesWithTheOthers) {
  Serve();
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 3, 4);
  auto running =
      Trace(Nanos::Millis(50), [](v1::TraceRequest& r) { r.set_arm_timeout_ns(Nanos::Millis(300).ns()); });
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
  const capture::Capture capture = Load(arm.capture());
  EXPECT_EQ(capture.missing_ranks, (std::vector<RankId>{RankId(1), RankId(2), RankId(3)}));
}

TEST_F(CaptureSessionTest, EndsWithTheReasonIfNoRankArms) {
  Serve();
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 1, 1);
  auto running =
      Trace(Nanos::Millis(50), [](v1::TraceRequest& r) { r.set_arm_timeout_ns(Nanos::Millis(300).ns()); });
  EXPECT_TRUE(daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_arm(); }).has_arm());
  EXPECT_TRUE(daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_stop() && m.stop().abort(); })
                  .has_stop());
  const TraceRun run = running.get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::TIMED_OUT);
  EXPECT_EQ(run.finished.t0_ns(), 0);
}

v1::Trigger StepsFrom(v1::Trigger::Begin begin, uint64_t step, Nanos timeout) {
  v1::Trigger trigger;
  trigger.set_begin(begin);
  trigger.set_end(v1::Trigger::AFTER_STEPS);
  trigger.set_step(step);
  trigger.set_steps(4);
  trigger.set_timeout_ns(timeout.ns());
  return trigger;
}

TEST_F(CaptureSessionTest, ChoosesAStepThatAllRanksCanReach) {
  Serve();
  FakeDaemon& a = DaemonWithRanks("a", 0, 1, 2);
  FakeDaemon& b = DaemonWithRanks("b", 1, 1, 2);
  auto running = Trace(Nanos::Millis(50), [](v1::TraceRequest& r) {
    *r.mutable_trigger() = StepsFrom(v1::Trigger::AT_COMMON_STEP, 0, Nanos::Seconds(20));
  });
  const std::string id = ArmAll(a);
  ArmAll(b);
  EXPECT_EQ(WaitForStart(a).trigger().begin(), v1::Trigger::AT_COMMON_STEP);
  EXPECT_EQ(WaitForStart(b).trigger().begin(), v1::Trigger::AT_COMMON_STEP);
  a.SendWaiting(id, 0, 0, Nanos());
  b.SendWaiting(id, 1, 101, Nanos::Seconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  a.SendWaiting(id, 0, 100, Nanos::Seconds(1));
  const auto agreed = [](FakeDaemon& daemon) {
    return daemon
        .WaitFor([](const v1::FromAggregator& m) {
          return m.has_start() && m.start().trigger().begin() == v1::Trigger::AT_STEP;
        })
        .start();
  };
  const v1::Start start = agreed(a);
  EXPECT_EQ(agreed(b).trigger().step(), start.trigger().step());
  EXPECT_GT(start.trigger().step(), 102u)
      << "the furthest rank is in step 101, and the step before is to be recorded too";
  EXPECT_LT(start.trigger().step(), 110u) << "and not long after";
  a.SendEnd(1, id, 0);
  b.SendEnd(1, id, 1);
  EXPECT_EQ(running.get().finished.outcome(), v1::TraceFinished::COMPLETE);
  const auto wanted = Load(id).wanted_steps;
  ASSERT_TRUE(wanted.has_value());
  EXPECT_EQ(wanted->first, start.trigger().step());
  EXPECT_EQ(wanted->count, 4u);
}

TEST_F(CaptureSessionTest, ShortStepsGetMoreLead) {
  Serve();
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 1, 1);
  auto running = Trace(Nanos::Millis(50), [](v1::TraceRequest& r) {
    *r.mutable_trigger() = StepsFrom(v1::Trigger::AT_COMMON_STEP, 0, Nanos::Seconds(20));
  });
  const std::string id = ArmAll(daemon);
  WaitForStart(daemon);
  daemon.SendWaiting(id, 0, 1000, Nanos::Millis(1));
  const v1::Start start = daemon
                              .WaitFor([](const v1::FromAggregator& m) {
                                return m.has_start() && m.start().trigger().begin() == v1::Trigger::AT_STEP;
                              })
                              .start();
  EXPECT_GE(start.trigger().step(), 1053u) << "50 ms pass until all ranks know the step";
  daemon.SendEnd(1, id, 0);
  EXPECT_EQ(running.get().finished.outcome(), v1::TraceFinished::COMPLETE);
}

TEST_F(CaptureSessionTest, KeepsNothingWithoutATrigger) {
  Serve();
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 1, 1);
  auto running = Trace(Nanos::Millis(50), [](v1::TraceRequest& r) {
    *r.mutable_trigger() = StepsFrom(v1::Trigger::AT_STEP, 7, Nanos::Seconds(20));
  });
  const std::string id = ArmAll(daemon);
  EXPECT_EQ(WaitForStart(daemon).trigger().step(), 7u);
  daemon.SendWaiting(id, 0, 3, Nanos::Millis(1));
  daemon.SendState(id, 0, v1::RankState::FAILED, "that step did not come");
  daemon.SendEnd(1, id, 0);
  const TraceRun run = running.get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::TIMED_OUT);
  EXPECT_EQ(run.finished.t0_ns(), 0);
  EXPECT_THAT(run.finished.text(), HasSubstr("that step did not come"));
}

TEST_F(CaptureSessionTest, ARequestWithoutAMatchListsTheJobs) {
  Serve();
  DaemonWithRanks("n0", 0, 2, 2);
  const TraceRun run = Trace(Nanos::Millis(10), [](v1::TraceRequest& r) { r.set_job("other"); }).get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::NO_SUCH_JOB);
  EXPECT_THAT(run.finished.text(), HasSubstr("job (ranks 0, 1)"));
}

TEST_F(CaptureSessionTest, SendsTheStartToADaemonThatReconnects) {
  SessionLimits limits = Quick();
  limits.arm_timeout = Nanos::Seconds(5);
  Serve(limits);
  FakeDaemon& a = DaemonWithRanks("a", 0, 1, 2);
  FakeDaemon& b = DaemonWithRanks("b", 1, 1, 2);
  auto running = Trace(Nanos::Millis(500));
  const std::string id = ArmAll(a);
  a.Break();
  for (int i = 0; i < 200 && hub_->Status("", Caller::All()).daemons_size() > 1; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ArmAll(b);
  const v1::Start start = WaitForStart(b);
  a.Connect();
  EXPECT_EQ(WaitForStart(a).t0_ns(), start.t0_ns());
  a.SendEnd(1, id, 0);
  b.SendEnd(1, id, 1);
  EXPECT_EQ(running.get().finished.outcome(), v1::TraceFinished::COMPLETE);
}

TEST_F(CaptureSessionTest, ADaemonThatReconnectsWhileArmingIsAskedAgain) {
  Serve();
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 1, 1);
  auto running = Trace();
  ASSERT_TRUE(daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_arm(); }).has_arm());
  daemon.Break();  // the request was on its way
  daemon.Connect();
  const std::string id = ArmAll(daemon);
  EXPECT_NE(id, "");
  WaitForStart(daemon);
  daemon.SendEnd(1, id, 0);
  EXPECT_EQ(running.get().finished.outcome(), v1::TraceFinished::COMPLETE);
}

TEST_F(CaptureSessionTest, ADaemonLearnsWhichCapturesStillRun) {
  Started capture = StartCapture(Nanos::Seconds(60));
  capture.daemon.Break();
  const v1::Register again = capture.daemon.Connect();
  EXPECT_THAT(again.running().captures(), ElementsAre(capture.id));
  FakeDaemon& other = Daemon("n1", 9);
  const v1::Register elsewhere = other.Connect();
  EXPECT_TRUE(elsewhere.has_running());
  EXPECT_THAT(elsewhere.running().captures(), IsEmpty());
  hub_->Shutdown();
  capture.running.wait();
}

TEST_F(CaptureSessionTest, ADaemonThatDiesLeavesAPartialCapture) {
  SessionLimits limits = Quick();
  limits.quiet = Nanos::Millis(700);
  Serve(limits);
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
  const capture::Capture capture = Load(id);
  EXPECT_EQ(capture.ranks[0].activities.size(), 4u) << "what was captured is kept";
  EXPECT_EQ(capture.missing_ranks, (std::vector<RankId>{RankId(0)}));
}

TEST_F(CaptureSessionTest, WaitsOnlyBrieflyForADeadRank) {
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
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::PARTIAL)
      << "and not after 30 s: no rank is left to capture";
  EXPECT_THAT(run.finished.text(), HasSubstr("ranks 0, 1 gone: it was killed"));
}

TEST_F(CaptureSessionTest, KeepsTheRecordsOfAStoppedCapture) {
  auto [daemon, running, id] = StartCapture(Nanos::Seconds(60));
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
  const capture::Capture capture = Load(id);
  EXPECT_EQ(capture.ranks[0].activities.size(), 4u);
  EXPECT_FALSE(capture.partial()) << "the user requested the shorter window";
}

TEST_F(CaptureSessionTest, ACallerThatDisconnectsStopsItsCapture) {
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

TEST_F(CaptureSessionTest, OneProcessIsInOneCaptureAtATime) {
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

TEST_F(CaptureSessionTest, ACaptureOfThePastIncludesRanksThatHaveLeft) {
  Serve();
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 2, 2);
  v1::FromDaemon update;
  v1::Rank rank;
  *rank.mutable_process() = FakeDaemon::Process(1);
  rank.set_job("job");
  rank.set_uid(1000);
  rank.set_world_size(2);
  rank.set_rank(1);
  *update.mutable_ranks()->add_departed() = rank;
  *rank.mutable_process() = FakeDaemon::Process(0);
  rank.set_rank(0);
  *update.mutable_ranks()->add_ranks() = rank;
  daemon.Write(update);
  while (SeenRanks() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const int64_t before = clock_.Now().ns();
  auto running = Trace(Nanos(), [](v1::TraceRequest& request) { request.set_past_ns(30'000'000'000); });
  const auto arm = daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_arm_past(); }).arm_past();
  ASSERT_EQ(arm.processes_size(), 2);
  for (int r : {0, 1}) daemon.SendState(arm.capture(), r, v1::RankState::ARMED);
  const v1::Start start = WaitForStart(daemon);
  EXPECT_EQ(start.t1_ns() - start.t0_ns(), 30'000'000'000);
  EXPECT_LT(start.t1_ns() - before, Nanos::Seconds(20).ns());
  // A capture of the present is independent of it.
  EXPECT_TRUE(hub_->captures().Find(arm.capture())->of_the_past());
  daemon.SendBatch(1, arm.capture(), 0, Kernels(10), 10);
  daemon.SendBatch(2, arm.capture(), 1, Kernels(20), 20);
  for (int r : {0, 1}) daemon.SendState(arm.capture(), r, v1::RankState::DONE);
  daemon.SendEnd(3, arm.capture(), 0);
  daemon.SendEnd(4, arm.capture(), 1);
  const TraceRun run = running.get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::COMPLETE) << run.finished.text();
  EXPECT_EQ(Load(arm.capture()).ranks.size(), 2u);
}

TEST_F(CaptureSessionTest, AnHourIsTheLongestPast) {
  Serve();
  DaemonWithRanks("n0", 0, 1, 1);
  const TraceRun run =
      Trace(Nanos(), [](v1::TraceRequest& request) { request.set_past_ns(3'600'000'000'001); }).get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::FAILED);
  EXPECT_THAT(run.finished.text(), HasSubstr("at most an hour"));
}

TEST_F(CaptureSessionTest, ACaptureOfThePastAndOneOfThePresentMayShareAProcess) {
  Serve();
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 1, 1);
  auto running = Trace();
  const std::string id = ArmAll(daemon);
  auto past = Trace(Nanos(), [](v1::TraceRequest& request) { request.set_past_ns(1'000'000'000); });
  const auto arm = daemon.WaitFor([](const v1::FromAggregator& m) { return m.has_arm_past(); }).arm_past();
  daemon.SendState(arm.capture(), 0, v1::RankState::FAILED, "it keeps no operation log");
  EXPECT_THAT(past.get().finished.text(), HasSubstr("it keeps no operation log"));
  WaitForStart(daemon);
  daemon.SendEnd(1, id, 0);
  EXPECT_EQ(running.get().finished.outcome(), v1::TraceFinished::COMPLETE);
}

TEST_F(CaptureSessionTest, ShutdownEndsARunningCaptureAndKeepsItsRecords) {
  auto [daemon, running, id] = StartCapture(Nanos::Seconds(60));
  daemon.SendBatch(1, id, 0, Kernels(4), 4);
  EXPECT_TRUE(daemon.WaitForAck(1));
  hub_->Shutdown();
  const TraceRun run = running.get();
  EXPECT_EQ(run.finished.outcome(), v1::TraceFinished::PARTIAL);
  const capture::Capture capture = Load(id);
  EXPECT_EQ(capture.ranks[0].activities.size(), 4u);
  ASSERT_EQ(capture.incomplete.size(), 1u);
  EXPECT_EQ(capture.incomplete[0].asked, Nanos::Seconds(60));
  EXPECT_THAT(capture.incomplete[0].reason,
              HasSubstr("the aggregator ended before its last records arrived"));
}

}  // namespace
}  // namespace lockstep::aggregator
