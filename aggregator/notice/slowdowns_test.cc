#include "aggregator/notice/slowdowns.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "aggregator/notice/slowdown_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::aggregator {
namespace {

using ::testing::HasSubstr;

class SteadyClock final : public JobClock {
 public:
  JobTime Now() const override { return now; }
  JobTime now{1'800'000'000'000'000'000};
};

class NoConnection final : public DaemonConnection {
 public:
  bool Send(const v1::FromAggregator&) override { return true; }
  void Close() override {}
};

// Two nodes with two ranks each, whose steps take 100 ms, of which 80 ms are not communication.
class SlowdownsTest : public testing::Test {
 protected:
  SlowdownsTest() {
    for (const std::string node : {"a", "b"}) {
      v1::DaemonHello hello;
      *hello.mutable_version() = DaemonRegistry::Protocol();
      hello.set_node_id(node);
      hello.set_host_name("host-" + node);
      hello.set_session(1);
      auto connection = std::make_shared<NoConnection>();
      EXPECT_EQ(daemons_.Connect(hello, connection, {}).refused(), "");
      v1::RankUpdate update;
      for (const int32_t rank : Ranks(node)) {
        v1::Rank& one = *update.add_ranks();
        one.mutable_process()->set_pid(1000 + rank);
        one.set_rank(rank);
        one.set_world_size(4);
        one.set_job("train");
        one.set_uid(1000);
      }
      daemons_.SetRanks({node, 1}, connection.get(), update);
      connections_.push_back(connection);
    }
  }
  static std::vector<int32_t> Ranks(const std::string& node) {
    return node == "a" ? std::vector<int32_t>{0, 1} : std::vector<int32_t>{2, 3};
  }
  void Steps(int count, Nanos rank_3_longer = Nanos()) {
    for (int i = 0; i < count; ++i) {
      ++number_;
      now_ += Nanos::Millis(100);
      clock_.now += Nanos::Millis(100);
      for (const std::string node : {"a", "b"}) {
        v1::StepUpdate update;
        for (const int32_t rank : Ranks(node)) {
          const Nanos longer = rank == 3 ? rank_3_longer : Nanos();
          Add(1000 + rank,
              Nanos::Millis(20) + rank_3_longer - longer +
                  Nanos(static_cast<int64_t>(5e5 * normal_(random_))),
              update);
        }
        // Processes that this daemon does not have.
        Add(1000, Nanos(), update);
        Add(1003, Nanos(), update);
        slowdowns_.OnSteps({node, 1}, Owned(node, update));
      }
    }
  }
  // Leaves the strange processes in only if they are another node's.
  static v1::StepUpdate Owned(const std::string& node, const v1::StepUpdate& update) {
    v1::StepUpdate out;
    const int own = node == "a" ? 1000 : 1003;
    for (int i = 0; i < update.processes_size(); ++i) {
      if (i < 2 || update.processes(i).process().pid() != own) *out.add_processes() = update.processes(i);
    }
    return out;
  }
  void Add(int32_t pid, Nanos communication, v1::StepUpdate& update) {
    v1::ProcessSteps& process = *update.add_processes();
    process.mutable_process()->set_pid(pid);
    v1::StepRow& row = *process.add_steps();
    row.set_number(number_);
    row.set_duration_ns(Nanos::Millis(100).ns());
    row.set_communication_ns(communication.ns());
  }
  v1::StatusReply Status(const std::string& job = "", const Caller& caller = Caller::All()) {
    v1::StatusReply reply;
    slowdowns_.AddTo(reply, job, caller);
    return reply;
  }

  std::mt19937_64 random_{1};
  std::normal_distribution<double> normal_;
  SteadyClock clock_;
  MonoTime now_{5'000'000'000'000};
  DaemonRegistry daemons_{clock_, 16, &LogNothing};
  std::vector<std::shared_ptr<NoConnection>> connections_;
  std::vector<Alarm> fresh_;
  std::vector<std::string> events_;
  Slowdowns slowdowns_{daemons_,
                       clock_,
                       {.now = [this] { return now_; },
                        .log = [this](LogLevel, const char* event,
                                      std::initializer_list<LogField>) { events_.emplace_back(event); },
                        .on_new = [this](const Alarm& alarm) { fresh_.push_back(alarm); }}};
  uint64_t number_ = 0;
};

TEST_F(SlowdownsTest, NamesTheRankItsHostAndTheTime) {
  Steps(600);
  EXPECT_TRUE(fresh_.empty());
  const int64_t begin = clock_.now.ns();
  Steps(20, Nanos::Millis(15));
  ASSERT_EQ(fresh_.size(), 1u);
  EXPECT_EQ(fresh_[0].job, (JobKey{"train", 1000}));
  EXPECT_EQ(fresh_[0].kind, Alarm::Kind::kSlower);
  EXPECT_EQ(fresh_[0].ranks, std::vector<RankId>{RankId(3)});
  EXPECT_EQ(fresh_[0].hosts, std::vector<std::string>{"host-b"});
  EXPECT_EQ(fresh_[0].length, Nanos::Millis(100));
  const v1::Slowdown slow = Status().jobs(0).slowdowns(0);
  EXPECT_EQ(slow.rank(), 3);
  EXPECT_EQ(slow.host_name(), "host-b");
  EXPECT_NEAR(static_cast<double>(slow.since_step()), 601, 2);
  EXPECT_NEAR(static_cast<double>(slow.since_unix_ns() - begin), 1e8, 3e8);
  EXPECT_GT(slow.noticed_unix_ns(), slow.since_unix_ns());
  EXPECT_THAT(fresh_[0].text, HasSubstr("rank 3 (host-b) takes 1"));
  EXPECT_EQ(events_, std::vector<std::string>{"rank_slower"});
}

TEST_F(SlowdownsTest, StatusShowsJobsThatTheCallerMaySee) {
  Steps(600);
  Steps(20, Nanos::Millis(30));
  ASSERT_EQ(Status().jobs_size(), 1);
  const v1::JobSteps job = Status().jobs(0);
  EXPECT_EQ(job.job(), "train");
  EXPECT_EQ(job.uid(), 1000u);
  EXPECT_EQ(job.ranks(), 4u);
  EXPECT_EQ(job.last_step(), 620u);
  EXPECT_EQ(job.step_time_ns(), 100'000'000);
  ASSERT_EQ(job.slowdowns_size(), 1);
  EXPECT_EQ(job.slowdowns(0).ended_unix_ns(), 0);
  EXPECT_EQ(Status("train").jobs_size(), 1);
  EXPECT_EQ(Status("other").jobs_size(), 0);
  EXPECT_EQ(Status("", Caller::User(1000, {})).jobs_size(), 1);
  EXPECT_EQ(Status("", Caller::User(1001, {})).jobs_size(), 0);
  EXPECT_EQ(slowdowns_.counts().noticed, 1u);
}

TEST_F(SlowdownsTest, KeepsTheCaptureAndTheRecovery) {
  Steps(600);
  Steps(100, Nanos::Millis(30));
  ASSERT_EQ(fresh_.size(), 1u);
  slowdowns_.NoteCapture(fresh_[0].id, {.capture = "20270115-080000-abcdef", .problem = ""});
  slowdowns_.NoteCapture(fresh_[0].id + 7, {.capture = "another", .problem = ""});
  Steps(100);
  const v1::Slowdown slow = Status().jobs(0).slowdowns(0);
  EXPECT_EQ(slow.capture(), "20270115-080000-abcdef");
  EXPECT_GT(slow.ended_unix_ns(), slow.noticed_unix_ns());
  EXPECT_EQ(events_.back(), "rank_slower_ended");
}

TEST_F(SlowdownsTest, KnowsTheJobsThatStep) {
  Steps(10);
  EXPECT_EQ(slowdowns_.SteppedWithin(Nanos::Seconds(30)), (std::set<JobKey>{{"train", 1000}}));
  now_ += Nanos::Seconds(31);
  EXPECT_TRUE(slowdowns_.SteppedWithin(Nanos::Seconds(30)).empty());
}

TEST_F(SlowdownsTest, KeepsTheStepTimeOfEachMinuteWithSteps) {
  for (int minute = 0; minute < 70; ++minute) {
    Steps(100);
    slowdowns_.Advance();
    slowdowns_.Advance();
    now_ += Nanos::Seconds(60);
  }
  EXPECT_EQ(Status().jobs(0).trend_ns_size(), 60);
  EXPECT_EQ(Status().jobs(0).trend_ns(59), 100'000'000);
  now_ += Nanos::Seconds(600);
  slowdowns_.Advance();
  EXPECT_EQ(Status().jobs(0).trend_ns_size(), 60) << "no step has ended since";
}

TEST_F(SlowdownsTest, EndsTheSlowdownsOfAJobWithoutProcesses) {
  Steps(600);
  Steps(60, Nanos::Millis(10));
  ASSERT_EQ(fresh_.size(), 1u);
  now_ += Nanos::Seconds(60);
  slowdowns_.Advance();
  EXPECT_EQ(Status().jobs(0).slowdowns(0).ended_unix_ns(), 0) << "its processes run: a long evaluation";
  EXPECT_GT(Status().jobs(0).trend_ns_size(), 0);
  for (size_t i = 0; i < connections_.size(); ++i)
    daemons_.SetRanks({i == 0 ? "a" : "b", 1}, connections_[i].get(), {});
  slowdowns_.Advance();
  EXPECT_NE(Status().jobs(0).slowdowns(0).ended_unix_ns(), 0);
  EXPECT_EQ(Status().jobs(0).trend_ns_size(), 0);
  EXPECT_EQ(std::count(events_.begin(), events_.end(), "rank_slower_ended"), 1);
  slowdowns_.Advance();
  EXPECT_EQ(std::count(events_.begin(), events_.end(), "rank_slower_ended"), 1);
}

TEST_F(SlowdownsTest, ForgetsAJobAfterAnHour) {
  Steps(200);
  now_ += Nanos::Seconds(3500);
  slowdowns_.Advance();
  EXPECT_EQ(Status().jobs_size(), 1);
  now_ += Nanos::Seconds(200);
  slowdowns_.Advance();
  EXPECT_EQ(Status().jobs_size(), 0);
}

}  // namespace
}  // namespace lockstep::aggregator
