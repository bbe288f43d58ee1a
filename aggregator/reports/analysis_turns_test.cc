#include "aggregator/reports/analysis_turns.h"

#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::aggregator {
namespace {

using ::testing::ElementsAre;

// Callers that wait in their own threads. Each ends its turn when the test says so.
class AnalysisTurnsTest : public ::testing::Test {
 protected:
  using Waiting = std::future<std::unique_ptr<AnalysisTurns::Turn>>;

  // Adds a waiting caller behind those before it. Its place in the queue shows that it waits.
  void Queue(uid_t user) {
    const size_t before = waiting_.size();
    waiting_.push_back(std::async(std::launch::async, [this, user, before] {
      std::unique_ptr<AnalysisTurns::Turn> turn = turns_.Wait(user);
      MutexLock lock(&mutex_);
      if (turn != nullptr) order_.push_back(before);
      return turn;
    }));
    while (turns_.waiting() < before + 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  AnalysisTurns turns_{1};
  Mutex mutex_;
  std::vector<size_t> order_ ABSL_GUARDED_BY(mutex_);
  std::vector<Waiting> waiting_;
};

TEST_F(AnalysisTurnsTest, UsersTakeTurns) {
  std::unique_ptr<AnalysisTurns::Turn> first = turns_.Wait(1);
  for (const uid_t user : {1, 1, 2, 1, 3}) Queue(user);
  first.reset();
  // Each turn ends when the future gives it away.
  for (const size_t next : {0, 2, 4, 1, 3}) waiting_[next].get().reset();
  MutexLock lock(&mutex_);
  EXPECT_THAT(order_, ElementsAre(0, 2, 4, 1, 3));
}

TEST(AnalysisTurns, OneUserHasOneOfSeveralPlaces) {
  AnalysisTurns turns(2);
  const std::unique_ptr<AnalysisTurns::Turn> first = turns.Wait(1);
  auto second = std::async(std::launch::async, [&] { return turns.Wait(1); });
  while (turns.waiting() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_NE(turns.Wait(2), nullptr);
  EXPECT_EQ(turns.waiting(), 1u);
  turns.Close();
  EXPECT_EQ(second.get(), nullptr);
  EXPECT_EQ(turns.Wait(3), nullptr);
}

}  // namespace
}  // namespace lockstep::aggregator
