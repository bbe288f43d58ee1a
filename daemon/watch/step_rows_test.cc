#include "daemon/watch/step_rows.h"

#include <cstdint>
#include <string>
#include <vector>

#include "base/split_mix.h"
#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

constexpr uint64_t kWorld = 1, kTensor = 2;

// Writes the log of one rank whose steps are alike.
class WrittenLog {
 public:
  std::vector<ring::LogRecord> records;
  HostTime now = HostTime(1'000'000'000);

  // A collective that is entered after `compute`, and whose kernel runs for `runs`.
  void Collective(uint64_t communicator, uint64_t shape, Nanos compute, Nanos runs) {
    const HostTime entered = now + compute;
    now = entered + runs;
    records.push_back({.kind = ring::LogKind::kOperation,
                       .communicator = communicator,
                       .number = ++numbers_[communicator],
                       .shape = shape,
                       .entered = entered,
                       .started = entered,
                       .completed = now});
  }
  void Mark(uint64_t number, ring::LogKind kind = ring::LogKind::kMarkedStep) {
    records.push_back({.kind = kind,
                       .communicator = 0,
                       .number = number,
                       .shape = 0,
                       .entered = now,
                       .started = {},
                       .completed = {}});
  }
  // Three collectives of the world and six of the tensor group, in 34 ms, of which 9 ms are communication.
  void Step() {
    for (const uint64_t shape : {10, 11, 10}) {
      Collective(kTensor, 5, Nanos::Millis(shape == 11 ? 9 : 2), Nanos::Millis(1));
      Collective(kTensor, 5, Nanos::Millis(2), Nanos::Millis(1));
      Collective(kWorld, shape, Nanos::Millis(2), Nanos::Millis(1));
    }
  }

 private:
  std::map<uint64_t, uint64_t> numbers_;
};

int32_t RanksOf(uint64_t communicator) { return communicator == kWorld ? 8 : 2; }

std::vector<RankStep> StepsOf(const WrittenLog& log) { return StepRows().Add(log.records, &RanksOf); }

TEST(StepRows, MarksDivideTheSteps) {
  WrittenLog log;
  for (uint64_t step = 100; step < 140; ++step) {
    log.Mark(step);
    log.Step();
  }
  const std::vector<RankStep> steps = StepsOf(log);
  ASSERT_GE(steps.size(), 25u);
  EXPECT_EQ(steps.back().number, 138u);
  EXPECT_EQ(steps.back().period, 0u);
  for (const RankStep& step : steps) {
    EXPECT_EQ(step.duration, Nanos::Millis(34));
    EXPECT_EQ(step.communication, Nanos::Millis(9));
  }
  // In the first steps, the world is not yet known as the largest communicator in regular use.
  for (size_t i = steps.size() - 20; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].number, steps[i - 1].number + 1);
    EXPECT_EQ(steps[i].begin, steps[i - 1].begin + steps[i - 1].duration);
  }
}

TEST(StepRows, CollectivesDivideUnmarkedSteps) {
  WrittenLog log;
  for (int step = 0; step < 60; ++step) log.Step();
  const std::vector<RankStep> steps = StepsOf(log);
  ASSERT_GE(steps.size(), 25u);
  for (const RankStep& step : steps) {
    EXPECT_EQ(step.period, 3u);
    EXPECT_EQ(step.duration, Nanos::Millis(34));
    EXPECT_EQ(step.communication, Nanos::Millis(9));
  }
  // The log does not show the end of step 59, which is the 60th.
  EXPECT_EQ(steps.back().number, 58u);
}

TEST(StepRows, RanksThatBeginToLookAtDifferentTimesAgree) {
  WrittenLog log;
  for (int step = 0; step < 200; ++step) log.Step();
  StepRows early, late;
  const std::vector<RankStep> all = early.Add(log.records, &RanksOf);
  const std::vector<RankStep> some = late.Add(std::span(log.records).subspan(400), &RanksOf);
  ASSERT_FALSE(some.empty());
  EXPECT_EQ(all.back().number, some.back().number);
  EXPECT_EQ(all.back().begin, some.back().begin);
}

TEST(StepRows, PiecesGiveTheSameSteps) {
  WrittenLog log;
  for (uint64_t step = 0; step < 60; ++step) {
    log.Mark(step);
    log.Step();
  }
  StepRows whole, pieces;
  const std::vector<RankStep> expected = whole.Add(log.records, &RanksOf);
  std::vector<RankStep> steps;
  for (size_t i = 0; i < log.records.size(); i += 7) {
    const size_t size = std::min<size_t>(7, log.records.size() - i);
    for (const RankStep& step : pieces.Add(std::span(log.records).subspan(i, size), &RanksOf))
      steps.push_back(step);
  }
  ASSERT_EQ(steps.size(), expected.size());
  for (size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i].begin, expected[i].begin);
}

TEST(StepRows, ALateRanksOwnTimeGrows) {
  WrittenLog log;
  for (uint64_t step = 0; step < 60; ++step) {
    log.Mark(step);
    log.Step();
    if (step == 58) log.Collective(kWorld, 10, Nanos::Millis(100), Nanos::Millis(1));
  }
  log.Mark(60);
  log.Step();
  const std::vector<RankStep> steps = StepsOf(log);
  const RankStep& slow = steps[steps.size() - 2];
  EXPECT_EQ(slow.number, 58u);
  EXPECT_EQ(slow.duration - slow.communication, Nanos::Millis(125));
}

TEST(StepRows, KernelsThatOverlapCountOnce) {
  WrittenLog log;
  for (uint64_t step = 0; step < 30; ++step) {
    log.Mark(step);
    log.Step();
    ring::LogRecord twin = log.records.back();
    twin.communicator = 3;
    twin.started = twin.started - Nanos::Millis(1);
    log.records.push_back(twin);
  }
  const std::vector<RankStep> steps = StepsOf(log);
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(steps.back().communication, Nanos::Millis(10));
}

TEST(StepRows, MarksOfTheApplicationArePreferred) {
  WrittenLog log;
  for (uint64_t step = 0; step < 40; ++step) {
    log.Mark(step);
    log.Step();
    log.Mark(1000 + step, ring::LogKind::kNamedStep);
  }
  const std::vector<RankStep> steps = StepsOf(log);
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(steps.back().number, 38u);
}

TEST(StepRows, AnotherSequenceIsLearnedAgain) {
  WrittenLog log;
  for (int step = 0; step < 60; ++step) log.Step();
  for (uint64_t i = 0; i < 600; ++i) log.Collective(kWorld, 20 + i % 5, Nanos::Millis(5), Nanos::Millis(1));
  const std::vector<RankStep> steps = StepsOf(log);
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(steps.front().period, 3u);
  EXPECT_EQ(steps.back().period, 5u);
  EXPECT_EQ(steps.back().duration, Nanos::Millis(30));
}

// As in the warm-up of a job.
TEST(StepRows, APeriodOfOneIsGivenUp) {
  WrittenLog log;
  for (int i = 0; i < 200; ++i) log.Collective(kWorld, 10, Nanos::Millis(5), Nanos::Millis(1));
  for (int step = 0; step < 100; ++step) log.Step();
  const std::vector<RankStep> steps = StepsOf(log);
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(steps.front().period, 1u);
  EXPECT_EQ(steps.back().period, 3u);
  EXPECT_EQ(steps.back().duration, Nanos::Millis(34));
}

TEST(StepRows, MarksThatEndAreReplaced) {
  WrittenLog log;
  log.Mark(1);
  for (int step = 0; step < 4000; ++step) log.Step();
  const std::vector<RankStep> steps = StepsOf(log);
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(steps.back().period, 3u);
}

// As collectives on the copy engines.
TEST(StepRows, CollectivesWithoutTimesDoNotEndSteps) {
  WrittenLog log;
  for (int step = 0; step < 60; ++step) {
    log.Step();
    log.records.back().started = log.records.back().completed = HostTime();
  }
  const std::vector<RankStep> steps = StepsOf(log);
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(steps.back().period, 3u);
  EXPECT_EQ(steps.back().communication, Nanos::Millis(8));
}

TEST(StepRows, ACommunicatorOfUnknownSizeIsNotTheReference) {
  WrittenLog log;
  for (int step = 0; step < 60; ++step) log.Step();
  StepRows rows;
  EXPECT_TRUE(rows.Add(log.records, [](uint64_t) { return 0; }).empty());
}

TEST(StepRows, SurvivesAClockThatIsSteppedBack) {
  WrittenLog log;
  for (uint64_t step = 0; step < 60; ++step) {
    if (step == 30) log.now = log.now - Nanos::Millis(900);
    log.Mark(step);
    log.Step();
  }
  const std::vector<RankStep> steps = StepsOf(log);
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(steps.back().number, 58u);
  for (const RankStep& step : steps) EXPECT_EQ(step.duration, Nanos::Millis(34)) << step.number;
}

TEST(StepRows, ARareCommunicatorIsNotTheReference) {
  WrittenLog log;
  log.Collective(kWorld, 1, Nanos::Millis(1), Nanos::Millis(1));
  for (int step = 0; step < 100; ++step) {
    log.Collective(kTensor, 5, Nanos::Millis(9), Nanos::Millis(1));
    log.Collective(kTensor, 6, Nanos::Millis(9), Nanos::Millis(1));
  }
  const std::vector<RankStep> steps = StepsOf(log);
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(steps.back().period, 2u);
}

TEST(StepRows, NeedsRepetition) {
  SplitMix random(1);
  WrittenLog log;
  for (int i = 0; i < 3000; ++i)
    log.Collective(kWorld, random.Next() % 50, Nanos::Millis(1), Nanos::Millis(1));
  EXPECT_TRUE(StepsOf(log).empty());
}

class StepRowsOfAnyNumbers : public testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Marks, StepRowsOfAnyNumbers, testing::Values(9, 1'000'000'000));

TEST_P(StepRowsOfAnyNumbers, AreSurvived) {
  SplitMix random(7);
  constexpr uint64_t kSpecial[] = {0, 1, ~uint64_t{0}, uint64_t{1} << 63, uint64_t{1} << 62, 1000};
  const auto any = [&] { return random.Next() % 3 == 0 ? kSpecial[random.Below(6)] : random.Next() % 4000; };
  std::vector<ring::LogRecord> records;
  for (int i = 0; i < 100'000; ++i) {
    const auto time = [&] { return HostTime(static_cast<int64_t>(any())); };
    records.push_back(
        {.kind = random.Next() % GetParam() == 0 ? ring::LogKind::kMarkedStep : ring::LogKind::kOperation,
         .communicator = any() % 300,
         .number = any(),
         .shape = any() % 3,
         .entered = time(),
         .started = time(),
         .completed = time()});
  }
  StepRows rows;
  for (const RankStep& step : rows.Add(records, [](uint64_t id) { return static_cast<int32_t>(id % 3); })) {
    EXPECT_GE(step.communication, Nanos());
    EXPECT_LE(step.communication, step.duration);
  }
}

// Kernels that never end would be compared with each step.
TEST(StepRows, AHostileLogTakesBoundedTime) {
  WrittenLog log;
  for (uint64_t i = 0; i < 40'000; ++i) {
    log.records.push_back({.kind = ring::LogKind::kOperation,
                           .communicator = 0,
                           .number = i,
                           .shape = i * 77,
                           .entered = HostTime(1),
                           .started = HostTime(1),
                           .completed = HostTime(int64_t{1} << 61)});
    log.records.push_back(log.records.back());
    log.records.back().communicator = 5;
  }
  for (int i = 0; i < 40'000; ++i) log.Collective(kWorld, 10, Nanos(1), Nanos(1));
  EXPECT_LE(StepsOf(log).size(), StepRows::kMostSteps);
}

}  // namespace
}  // namespace lockstep::daemon
