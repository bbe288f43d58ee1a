#include "aggregator/notice/hang_watch.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::aggregator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FixedClock final : public JobClock {
 public:
  JobTime Now() const override { return now; }
  JobTime now{1'800'000'000'000'000'000};
};

// Two ranks of one job on one node, of which rank 1 may not come to their second all-reduce.
class HangWatchTest : public testing::Test {
 protected:
  void Enter(int32_t rank, int64_t seconds_ago) {
    v1::CommunicatorProgress& world =
        *progress_.mutable_nodes(0)->mutable_processes(rank)->mutable_communicators(0);
    world.set_operations_entered(2);
    world.set_collectives_entered(2);
    v1::OperationProgress& operation = *world.add_operations();
    operation.set_position(2);
    operation.set_number(2);
    operation.set_function("AllReduce");
    const int64_t since = progress_.nodes(0).now_unix_ns() - Nanos::Seconds(seconds_ago).ns();
    operation.set_entered_unix_ns(since);
    operation.set_launched_unix_ns(since);
    operation.set_started_unix_ns(since);
  }
  // The operation ends.
  void Leave(int32_t rank) {
    v1::OperationProgress& operation =
        *progress_.mutable_nodes(0)->mutable_processes(rank)->mutable_communicators(0)->mutable_operations(0);
    operation.set_completed_unix_ns(progress_.nodes(0).now_unix_ns());
  }
  v1::StatusReply Status(const std::string& job = "", const Caller& caller = Caller::All()) {
    v1::StatusReply reply;
    watch_.AddTo(reply, job, caller);
    return reply;
  }
  static v1::ProgressReply TwoRanks() {
    v1::ProgressReply progress;
    v1::NodeProgress& node = *progress.add_nodes();
    node.set_node_id("boot");
    node.set_host_name("node1");
    node.set_now_unix_ns(1'700'000'000'000'000'000);
    for (const int32_t rank : {0, 1}) {
      v1::ProcessProgress& process = *node.add_processes();
      process.mutable_rank()->set_rank(rank);
      process.mutable_rank()->set_local_rank(-1);
      process.mutable_rank()->set_world_size(2);
      process.mutable_rank()->set_job("train");
      process.mutable_rank()->set_uid(1000);
      process.mutable_rank()->mutable_process()->set_pid(100 + rank);
      process.mutable_state()->set_state("S");
      v1::CommunicatorProgress& world = *process.add_communicators();
      world.set_id(0xA);
      world.set_name("world");
      world.set_rank(rank);
      world.set_ranks(2);
      world.set_reports_launches(true);
      world.set_reports_kernels(true);
      world.set_operations_entered(1);
      world.set_collectives_entered(1);
    }
    return progress;
  }

  FixedClock clock_;
  DaemonRegistry daemons_{clock_, 16, &LogNothing};
  v1::ProgressReply progress_ = TwoRanks();
  int64_t cpu_ns_ = 0;              // that each process uses between two looks
  std::function<void()> answered_;  // called after the next look
  std::set<JobKey> suspects_ = {{"train", 1000}};
  std::vector<Alarm> alarms_;
  std::vector<std::string> events_;
  std::vector<v1::ProgressRequest> asked_;
  HangWatch watch_{daemons_,
                   clock_,
                   {.after = Nanos::Seconds(60),
                    .between_looks = Nanos(1),
                    .log = [this](LogLevel, const char* event,
                                  std::initializer_list<LogField>) { events_.emplace_back(event); },
                    .on_new = [this](const Alarm& alarm) { alarms_.push_back(alarm); },
                    .suspects = [this] { return suspects_; },
                    .look =
                        [this](const v1::ProgressRequest& request) {
                          asked_.push_back(request);
                          // The next look is a second later.
                          auto reply = std::make_unique<v1::ProgressReply>(progress_);
                          v1::NodeProgress& node = *progress_.mutable_nodes(0);
                          node.set_now_unix_ns(node.now_unix_ns() + Nanos::Seconds(1).ns());
                          for (auto& process : *node.mutable_processes())
                            process.mutable_state()->set_cpu_ns(process.state().cpu_ns() + cpu_ns_);
                          if (answered_) std::exchange(answered_, nullptr)();
                          return reply;
                        }}};
};

TEST_F(HangWatchTest, NoticesAHangOnceAndItsEnd) {
  watch_.Examine();
  EXPECT_TRUE(alarms_.empty());
  Enter(0, 94);
  watch_.Examine();
  watch_.Examine();
  ASSERT_EQ(alarms_.size(), 1u);
  EXPECT_EQ(alarms_[0].kind, Alarm::Kind::kHang);
  EXPECT_EQ(alarms_[0].job, (JobKey{"train", 1000}));
  EXPECT_EQ(alarms_[0].ranks, std::vector<RankId>{RankId(1)});
  EXPECT_EQ(alarms_[0].hosts, std::vector<std::string>{"node1"});
  EXPECT_THAT(alarms_[0].text,
              HasSubstr("rank 1 (node1) never entered all_reduce #2 of world; 1 rank waits in it for 9"));
  EXPECT_NEAR(alarms_[0].length.seconds(), 96, 1.5);
  EXPECT_EQ(watch_.counts().hanging, (std::vector<JobKey>{{"train", 1000}}));
  Enter(1, 0);
  Leave(0);
  Leave(1);
  watch_.Examine();
  EXPECT_TRUE(watch_.counts().hanging.empty());
  EXPECT_EQ(watch_.counts().noticed, 1u);
  EXPECT_GT(Status().hangs(0).ended_unix_ns(), 0);
  EXPECT_THAT(events_, ElementsAre("job_hangs", "job_hangs_ended"));
}

TEST_F(HangWatchTest, AWaitThatMayEndIsNone) {
  Enter(0, 94);
  cpu_ns_ = Nanos::Millis(500).ns();
  watch_.Examine();
  EXPECT_TRUE(alarms_.empty());
}

TEST_F(HangWatchTest, AWaitAfterAHangDoesNotEndIt) {
  Enter(0, 94);
  watch_.Examine();
  cpu_ns_ = Nanos::Millis(500).ns();
  watch_.Examine();
  EXPECT_EQ(watch_.counts().hanging.size(), 1u);
  cpu_ns_ = 0;
  watch_.Examine();
  EXPECT_EQ(watch_.counts().noticed, 1u);
}

TEST_F(HangWatchTest, AnExaminationWithoutAllDaemonsShowsNothing) {
  Enter(0, 94);
  progress_.add_silent_hosts("node2");
  watch_.Examine();
  EXPECT_TRUE(alarms_.empty());
  progress_.clear_silent_hosts();
  watch_.Examine();
  EXPECT_EQ(watch_.counts().hanging.size(), 1u);
  progress_.add_silent_hosts("node2");
  progress_.mutable_nodes(0)->clear_processes();
  watch_.Examine();
  EXPECT_EQ(watch_.counts().hanging.size(), 1u);
}

TEST_F(HangWatchTest, AHostThatMissedOneLookMayHaveComputed) {
  Enter(0, 94);
  progress_.add_silent_hosts("node1");
  // The look is answered as usual from the second one on.
  answered_ = [this] { progress_.clear_silent_hosts(); };
  watch_.Examine();
  EXPECT_TRUE(alarms_.empty());
  watch_.Examine();
  EXPECT_EQ(alarms_.size(), 1u);
}

TEST_F(HangWatchTest, ADaemonMayReturnBeforeItsRanksAreAbsent) {
  Enter(0, 94);
  progress_.mutable_nodes(0)->mutable_processes()->RemoveLast();
  for (int look = 0; look < 5; ++look) watch_.Examine();
  EXPECT_TRUE(alarms_.empty());
  watch_.Examine();
  ASSERT_EQ(alarms_.size(), 1u);
  EXPECT_THAT(alarms_[0].text, HasSubstr("no daemon or dump reports member 1 of world"));
}

TEST_F(HangWatchTest, RanksWithoutProgressAreSeldomAsked) {
  for (auto& process : *progress_.mutable_nodes(0)->mutable_processes()) process.clear_communicators();
  for (int look = 0; look < 12; ++look) watch_.Examine();
  EXPECT_EQ(asked_.size(), 2u);
}

TEST_F(HangWatchTest, ForgetsHangsAnHourAfterTheirEnd) {
  Enter(0, 94);
  watch_.Examine();
  suspects_.clear();
  watch_.Examine();
  clock_.now += Nanos::Seconds(3500);
  watch_.Examine();
  EXPECT_EQ(Status().hangs_size(), 1);
  clock_.now += Nanos::Seconds(200);
  watch_.Examine();
  EXPECT_EQ(Status().hangs_size(), 0);
}

TEST_F(HangWatchTest, EndsWhileItLooks) {
  HangWatch* watch = nullptr;
  HangWatch started(daemons_, clock_,
                    {.after = Nanos::Seconds(1),
                     .on_new = [this](const Alarm& alarm) { alarms_.push_back(alarm); },
                     .suspects = [this] { return suspects_; },
                     .look =
                         [&](const v1::ProgressRequest&) {
                           // Another thread's Shutdown begins, and this look gets a part of the answers.
                           watch->Stop();
                           return std::make_unique<v1::ProgressReply>(progress_);
                         }});
  watch = &started;
  Enter(0, 94);
  started.Start();
  started.Shutdown();
  started.Examine();
  EXPECT_TRUE(alarms_.empty());
}

TEST_F(HangWatchTest, StopsNoThread) {
  Enter(0, 94);
  watch_.Examine();
  ASSERT_GE(asked_.size(), 2u);
  EXPECT_EQ(asked_[1].stacks_size(), 1);
  for (const v1::ProgressRequest& request : asked_) EXPECT_FALSE(request.native_stacks());
}

TEST_F(HangWatchTest, AJobThatStepsIsNotExamined) {
  Enter(0, 94);
  watch_.Examine();
  ASSERT_EQ(alarms_.size(), 1u);
  const size_t asked = asked_.size();
  suspects_.clear();
  watch_.Examine();
  EXPECT_EQ(asked_.size(), asked);
  EXPECT_TRUE(watch_.counts().hanging.empty());
  suspects_ = {{"other", 1000}};
  watch_.Examine();
  EXPECT_EQ(alarms_.size(), 1u);
}

TEST_F(HangWatchTest, StatusShowsHangsThatTheCallerMaySee) {
  Enter(0, 94);
  watch_.Examine();
  ASSERT_EQ(Status().hangs_size(), 1);
  watch_.NoteCapture(alarms_.at(0).id, {.capture = "20270115-080000-abcdef", .problem = ""});
  const v1::JobHang hang = Status().hangs(0);
  EXPECT_EQ(hang.cause(), "never_entered");
  EXPECT_EQ(hang.late_ranks(0), 1);
  EXPECT_EQ(hang.late_hosts(0), "node1");
  EXPECT_GE(hang.reasons_size(), 1);
  EXPECT_EQ(hang.ended_unix_ns(), 0);
  EXPECT_EQ(hang.capture(), "20270115-080000-abcdef");
  EXPECT_NEAR(static_cast<double>(hang.noticed_unix_ns() - hang.since_unix_ns()), 96e9, 1.5e9);
  EXPECT_EQ(Status("train").hangs_size(), 1);
  EXPECT_EQ(Status("other").hangs_size(), 0);
  EXPECT_EQ(Status("", Caller::User(1000, {})).hangs_size(), 1);
  EXPECT_EQ(Status("", Caller::User(1001, {})).hangs_size(), 0);
}

}  // namespace
}  // namespace lockstep::aggregator
