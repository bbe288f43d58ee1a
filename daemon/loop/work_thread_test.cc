#include "daemon/loop/work_thread.h"

#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

class WorkThreadTest : public testing::Test {
 protected:
  SystemClock clock_;
  std::unique_ptr<EventLoop> loop_ = *EventLoop::Create(clock_);
};

TEST_F(WorkThreadTest, RunsWorksInOrderAndEndsThemOnTheMainThread) {
  WorkThread thread(*loop_, 3);
  const std::thread::id main = std::this_thread::get_id();
  std::vector<int> run, done;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(thread.Add({.run =
                                [&, i] {
                                  EXPECT_NE(std::this_thread::get_id(), main);
                                  run.push_back(i);
                                },
                            .done =
                                [&, i] {
                                  EXPECT_EQ(std::this_thread::get_id(), main);
                                  done.push_back(i);
                                  if (i == 2) loop_->Stop();
                                }}));
  }
  loop_->Run();
  EXPECT_THAT(run, testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(done, testing::ElementsAre(0, 1, 2));
}

TEST_F(WorkThreadTest, RefusesWorkIfTooManyWait) {
  std::promise<void> begun, go;
  WorkThread thread(*loop_, 2);
  ASSERT_TRUE(thread.Add({.run =
                              [&] {
                                begun.set_value();
                                go.get_future().wait();
                              },
                          .done = [] {}}));
  begun.get_future().wait();
  int run = 0, done = 0;
  const auto add = [&] {
    return thread.Add({.run = [&] { ++run; },
                       .done =
                           [&] {
                             if (++done == 2) loop_->Stop();
                           }});
  };
  EXPECT_TRUE(add());
  EXPECT_TRUE(add());
  EXPECT_FALSE(add());
  go.set_value();
  loop_->Run();
  EXPECT_EQ(run, 2) << "the refused one did not run";
}

}  // namespace
}  // namespace lockstep::daemon
