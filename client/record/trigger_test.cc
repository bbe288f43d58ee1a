#include "client/record/trigger.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace lockstep::client {
namespace {

using ring::Begin;
using ring::End;

constexpr HostTime At(int64_t ms) { return HostTime(1'000'000'000 + ms * 1'000'000); }

class TriggerTest : public testing::Test {
 protected:
  void Set(TriggerSpec spec) {
    spec.limit = Nanos::Seconds(60);
    trigger_.Set(spec);
  }
  void Step(uint64_t number, int64_t ms, Trigger::StepSource source = Trigger::StepSource::kMarked) {
    trigger_.OnStep(number, source, number + 1, At(ms));
  }
  void ExpectWindow(int64_t from_ms, int64_t to_ms) {
    EXPECT_TRUE(window_.open());
    EXPECT_EQ(window_.t0().ns(), At(from_ms).ns());
    EXPECT_EQ(window_.t1().ns(), At(to_ms).ns());
  }

  Window window_;
  Trigger trigger_{window_};
};

TEST_F(TriggerTest, TheWindowIsFixedWhileOff) {
  EXPECT_FALSE(trigger_.watching());
  trigger_.OnRange("epoch", "", 1, At(1));
  trigger_.OnProfilerStart(At(1), At(1));
  EXPECT_FALSE(window_.open());
}

TEST_F(TriggerTest, StepsOpenOneStepAheadAndCloseOneStepTimeLater) {
  Set({.begin = Begin::kAtStep, .end = End::kAfterSteps, .step = 10, .steps = 3});
  Step(7, 0);
  Step(8, 20);
  EXPECT_FALSE(window_.open());
  Step(9, 40);
  EXPECT_TRUE(window_.open());
  EXPECT_EQ(window_.t0().ns(), At(40).ns()) << "step 9 leads in";
  Step(10, 60);
  Step(11, 80);
  Step(12, 100);
  EXPECT_EQ(trigger_.phase(), Trigger::Phase::kOpen);
  Step(13, 120);
  EXPECT_EQ(trigger_.phase(), Trigger::Phase::kClosed);
  ExpectWindow(40, 140);
  EXPECT_TRUE(trigger_.end_seen());
  EXPECT_FALSE(trigger_.step_missed());
}

TEST_F(TriggerTest, TheLastStepsOwnEndClosesToo) {
  Set({.begin = Begin::kAtStep, .end = End::kAfterSteps, .step = 2, .steps = 2});
  Step(1, 0);
  Step(2, 10);
  trigger_.OnRangeEnd(3, At(19));
  Step(3, 20);
  EXPECT_EQ(trigger_.phase(), Trigger::Phase::kOpen);
  trigger_.OnRangeEnd(4, At(29));
  ExpectWindow(0, 39);
}

TEST_F(TriggerTest, ReportsAPassedStep) {
  Set({.begin = Begin::kAtStep, .end = End::kAfterDuration, .step = 10, .duration = Nanos::Millis(100)});
  Step(12, 5);
  ExpectWindow(5, 105);
  EXPECT_TRUE(trigger_.step_missed());
  EXPECT_EQ(trigger_.Steps(At(6)).step, 12u);
}

TEST_F(TriggerTest, DoesNotBeginBeforeTheCommonStart) {
  Set({.begin = Begin::kAtStep, .end = End::kAfterSteps, .step = 5, .steps = 1, .earliest = At(50)});
  Step(4, 40);
  EXPECT_FALSE(window_.open());
  Step(5, 60);
  EXPECT_TRUE(window_.open());
  EXPECT_FALSE(trigger_.step_missed());
  Set({.begin = Begin::kAtRange, .end = End::kAtRangeEnd, .earliest = At(50), .range = "epoch"});
  window_.Close();
  trigger_.OnRange("epoch", "", 1, At(49));
  EXPECT_FALSE(window_.open());
  trigger_.OnRange("epoch", "", 2, At(51));
  EXPECT_TRUE(window_.open());
}

TEST_F(TriggerTest, PrefersMarkedStepsAndIgnoresInnerLoops) {
  Set({.begin = Begin::kAtStep, .end = End::kAfterSteps, .step = 100, .steps = 1});
  Step(3, 0, Trigger::StepSource::kNamed);
  EXPECT_EQ(trigger_.Steps(At(1)).step, 3u);
  Step(1, 1, Trigger::StepSource::kNamed);
  EXPECT_EQ(trigger_.Steps(At(2)).step, 3u) << "a loop inside the step";
  Step(98, 10);
  Step(99, 11, Trigger::StepSource::kNamed);
  EXPECT_FALSE(window_.open());
  Step(99, 20);
  EXPECT_TRUE(window_.open());
}

TEST_F(TriggerTest, StepTimeIsMeasuredBeforeItIsKnown) {
  Set({.begin = Begin::kReportStep});
  EXPECT_EQ(trigger_.Steps(At(0)).step_time, Nanos());
  Step(5, 0);
  EXPECT_FALSE(trigger_.step_measured());
  EXPECT_EQ(trigger_.Steps(At(30)).step_time, Nanos::Millis(30)) << "at least so long";
  Step(6, 40);
  EXPECT_TRUE(trigger_.step_measured());
  EXPECT_EQ(trigger_.Steps(At(50)).step_time, Nanos::Millis(40));
  EXPECT_FALSE(window_.open());
  trigger_.Agree(8);
  Step(7, 80);
  EXPECT_TRUE(window_.open());
}

TEST_F(TriggerTest, ARangeOpensAndItsOwnEndCloses) {
  Set({.begin = Begin::kAtRange, .end = End::kAtRangeEnd, .range = "epoch"});
  trigger_.OnRange("epoch 2", "", Trigger::KeyOfPush(1, 0), At(1));
  EXPECT_FALSE(window_.open());
  trigger_.OnRange("epoch", "any", Trigger::KeyOfPush(1, 0), At(2));
  EXPECT_TRUE(window_.open());
  trigger_.OnRange("epoch", "any", Trigger::KeyOfPush(2, 0), At(3));
  trigger_.OnRangeEnd(Trigger::KeyOfPush(2, 0), At(4));
  trigger_.OnRangeEnd(Trigger::KeyOfPush(1, 1), At(5));
  EXPECT_EQ(trigger_.phase(), Trigger::Phase::kOpen) << "another thread's, and an inner one";
  trigger_.OnRangeEnd(Trigger::KeyOfPush(1, 0), At(6));
  ExpectWindow(2, 6);
}

TEST_F(TriggerTest, ADomainCanBeNamed) {
  Set({.begin = Begin::kAtRange,
       .end = End::kAfterDuration,
       .duration = Nanos::Millis(5),
       .range = "a@b@train"});
  trigger_.OnRange("a@b", "other", 1, At(1));
  trigger_.OnRange("a@b@train", "", 1, At(1));
  EXPECT_FALSE(window_.open());
  trigger_.OnRange("a@b", "train", 1, At(2));
  ExpectWindow(2, 7);
}

TEST_F(TriggerTest, RangesAreCountedAsSteps) {
  Set({.begin = Begin::kAtRange, .end = End::kAfterSteps, .steps = 2, .range = "batch"});
  trigger_.OnRange("batch", "", 1, At(0));
  trigger_.OnRangeEnd(1, At(9));
  trigger_.OnRange("batch", "", 1, At(10));
  EXPECT_EQ(trigger_.phase(), Trigger::Phase::kOpen);
  trigger_.OnRangeEnd(1, At(19));
  ExpectWindow(0, 29);
}

TEST_F(TriggerTest, TheProfilerApiBeginsLateAndEndsExactly) {
  Set({.begin = Begin::kAtProfilerStart, .end = End::kAtProfilerStop});
  trigger_.OnProfilerStop(At(1));
  trigger_.OnProfilerStart(At(2), At(12));
  EXPECT_EQ(trigger_.late(), Nanos::Millis(10));
  trigger_.OnProfilerStop(At(11));
  EXPECT_EQ(trigger_.phase(), Trigger::Phase::kOpen) << "a stop from before";
  trigger_.OnProfilerStop(At(40));
  ExpectWindow(12, 40);
}

TEST_F(TriggerTest, GivingUpAndOpeningExcludeEachOther) {
  for (int turn = 0; turn < 200; ++turn) {
    window_.Close();
    Set({.begin = Begin::kAtRange, .end = End::kAtRangeEnd, .range = "r"});
    std::atomic<bool> gave_up{false};
    std::thread giver([&] { gave_up = trigger_.GiveUp(); });
    trigger_.OnRange("r", "", 1, At(1));
    giver.join();
    EXPECT_NE(gave_up.load(), window_.open());
    trigger_.Clear();
  }
}

TEST_F(TriggerTest, StepsOfManyThreadsCloseOnce) {
  Set({.begin = Begin::kAtStep, .end = End::kAfterSteps, .step = 1, .steps = 1000});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (uint64_t n = 0; n < 1200; ++n) Step(n, static_cast<int64_t>(n));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(trigger_.phase(), Trigger::Phase::kClosed);
  EXPECT_TRUE(trigger_.end_seen());
  EXPECT_LT(window_.t0(), window_.t1());
}

}  // namespace
}  // namespace lockstep::client
