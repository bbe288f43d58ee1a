#include "base/mutex.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

class Counter {
 public:
  void Add() {
    MutexLock lock(&mutex_);
    ++count_;
    changed_.SignalAll();
  }
  void Wait(int count) {
    MutexLock lock(&mutex_);
    changed_.Wait(&mutex_, [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return count_ >= count; });
  }
  // Runs `work` without the mutex, and returns the count after it.
  template <typename Work>
  int CountAfter(const Work& work) {
    MutexLock lock(&mutex_);
    {
      MutexUnlock unlocked(&mutex_);
      work();
    }
    return count_;
  }
  bool WaitFor(int count, Nanos at_most) {
    MutexLock lock(&mutex_);
    return changed_.WaitFor(
        &mutex_, at_most, [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return count_ >= count; });
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST(MutexTest, AWaitEndsWhenItsConditionHolds) {
  constexpr int kThreads = 4, kEach = 1000;
  Counter counter;
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&counter] {
      for (int n = 0; n < kEach; ++n) counter.Add();
    });
  }
  counter.Wait(kThreads * kEach);
  EXPECT_TRUE(counter.WaitFor(kThreads * kEach, Nanos::Seconds(60)));
}

TEST(MutexTest, MutexUnlockReleasesTheMutexAndTakesItAgain) {
  Counter counter;
  EXPECT_EQ(counter.CountAfter([&] { counter.Add(); }), 1);
  counter.Add();
  counter.Wait(2);
}

TEST(MutexTest, AWaitWhoseConditionNeverHoldsEnds) {
  Counter counter;
  EXPECT_FALSE(counter.WaitFor(1, Nanos::Millis(1)));
  counter.Add();  // the wait left the mutex free
  EXPECT_TRUE(counter.WaitFor(1, Nanos()));
}

}  // namespace
}  // namespace lockstep
