#include "aggregator/notice/alarm_policy.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/log/line_sink_fake.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::aggregator {
namespace {

using ::testing::HasSubstr;

struct DoneCall {
  uint64_t alarm = 0;
  AlarmCapture capture;
};

class AlarmPolicyTest : public testing::Test {
 protected:
  enum class Command : uint8_t { kNone, kOne };
  void Start(size_t per_hour, Command command = Command::kNone) {
    AlarmPolicyOptions options{
        .captures_per_hour = per_hour, .steps = 5, .now = [this] { return MonoTime(now_ns_); }};
    if (command == Command::kOne) {
      options.command = [this](const Alarm& alarm, const AlarmCapture& capture) {
        MutexLock lock(&mutex_);
        commands_.push_back({alarm.id, capture});
        changed_.SignalAll();
      };
    }
    policy_ = std::make_unique<AlarmPolicy>(
        std::move(options),
        [this](const v1::TraceRequest& request, const Caller& caller, const CaptureSession::Emit& emit) {
          emit({});
          return Trace(request, caller);
        },
        [this](const Alarm& alarm, const AlarmCapture& capture) {
          MutexLock lock(&mutex_);
          done_.push_back({alarm.id, capture});
          changed_.SignalAll();
        },
        audit_);
    policy_->Start();
  }
  v1::TraceFinished Trace(const v1::TraceRequest& request, const Caller& caller) {
    MutexLock lock(&mutex_);
    requests_.push_back(request);
    EXPECT_TRUE(caller.MayCapture({"train", 1000}));
    EXPECT_FALSE(caller.MayCapture({"train", 1001}));
    v1::TraceFinished finished;
    const bool fails = request.past_ns() != 0 ? past_fails_ : gpu_fails_;
    finished.set_outcome(fails ? v1::TraceFinished::FAILED : v1::TraceFinished::COMPLETE);
    if (fails) finished.set_text("no data");
    finished.set_capture("c" + std::to_string(requests_.size()));
    return finished;
  }
  static Alarm AlarmOf(uint64_t id, Alarm::Kind kind) {
    Alarm alarm;
    alarm.id = id;
    alarm.kind = kind;
    alarm.job = {"train", 1000};
    alarm.text = "rank 3 takes long";
    alarm.length = kind == Alarm::Kind::kHang ? Nanos::Seconds(94) : Nanos::Millis(400);
    return alarm;
  }
  // Adds an alarm, and waits until `done` was called.
  AlarmCapture Add(uint64_t id, Alarm::Kind kind = Alarm::Kind::kSlower) {
    policy_->Add(AlarmOf(id, kind));
    MutexLock lock(&mutex_);
    EXPECT_TRUE(changed_.WaitFor(&mutex_, Nanos::Seconds(10),
                                 [&] { return !done_.empty() && done_.back().alarm == id; }));
    return done_.empty() ? AlarmCapture() : done_.back().capture;
  }
  // Waits for this many calls of the command.
  std::vector<DoneCall> Commands(size_t count) {
    MutexLock lock(&mutex_);
    EXPECT_TRUE(changed_.WaitFor(&mutex_, Nanos::Seconds(10), [&] { return commands_.size() >= count; }));
    return commands_;
  }

  SystemClock clock_;
  RecordedLines lines_;
  AuditLog audit_{{.program = "p", .session = 1, .user_name = [](uid_t) { return std::string(); }},
                  std::make_unique<FakeLineSink>(lines_),
                  clock_};
  std::atomic<int64_t> now_ns_ = 1'000'000'000'000;
  bool gpu_fails_ = false, past_fails_ = false;
  Mutex mutex_;
  CondVar changed_;
  std::vector<v1::TraceRequest> requests_;
  std::vector<DoneCall> done_, commands_;
  std::unique_ptr<AlarmPolicy> policy_;
};

TEST_F(AlarmPolicyTest, CapturesSomeStepsOfTheJobAndSaysWhy) {
  Start(2);
  EXPECT_EQ(Add(1).capture, "c1");
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_EQ(requests_[0].job(), "1000:train");
  EXPECT_EQ(requests_[0].duration_ns(), 2'000'000'000);
  EXPECT_THAT(absl::StrJoin(lines_.lines(), "\n"), HasSubstr("\"because\":\"rank 3 takes long"));
}

TEST_F(AlarmPolicyTest, OneCaptureServesTheRanksOfOneIncident) {
  Start(10);
  EXPECT_EQ(Add(1).capture, "c1");
  now_ns_ += Nanos::Seconds(60).ns();
  EXPECT_EQ(Add(2).capture, "c1");
  now_ns_ += Nanos::Seconds(600).ns();
  EXPECT_EQ(Add(3).capture, "c2");
}

TEST_F(AlarmPolicyTest, KeepsTheLimit) {
  Start(1);
  EXPECT_EQ(Add(1).capture, "c1");
  now_ns_ += Nanos::Seconds(1800).ns();
  EXPECT_THAT(Add(2).problem, HasSubstr("--alarm-captures allows 1 per hour"));
  now_ns_ += Nanos::Seconds(1800).ns();
  EXPECT_EQ(Add(3).capture, "c2");
}

TEST_F(AlarmPolicyTest, TakesThePastIfTheGpuCannotBeCaptured) {
  gpu_fails_ = true;
  Start(1);
  EXPECT_EQ(Add(1).capture, "c2");
  ASSERT_EQ(requests_.size(), 2u);
  EXPECT_EQ(requests_[1].past_ns(), 30'000'000'000);
  EXPECT_EQ(requests_[1].duration_ns(), 0);
}

TEST_F(AlarmPolicyTest, SaysThatBothFailed) {
  gpu_fails_ = past_fails_ = true;
  Start(10);
  const AlarmCapture capture = Add(1);
  EXPECT_EQ(capture.capture, "");
  EXPECT_EQ(capture.problem, "no data");
  EXPECT_EQ(Add(2).problem, "no data");
  EXPECT_EQ(requests_.size(), 2u);
}

TEST_F(AlarmPolicyTest, CapturesThePastOfAHang) {
  Start(10);
  EXPECT_EQ(Add(1, Alarm::Kind::kHang).capture, "c1");
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_EQ(requests_[0].past_ns(), Nanos::Seconds(94 + 30).ns());
  EXPECT_EQ(Add(2, Alarm::Kind::kSlower).capture, "c2") << "another kind is another incident";
}

TEST_F(AlarmPolicyTest, RunsTheCommandOncePerIncidentAfterItsCapture) {
  Start(10, Command::kOne);
  Add(1);
  Add(2);
  now_ns_ += Nanos::Seconds(600).ns();
  Add(3);
  const std::vector<DoneCall> commands = Commands(2);
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_EQ(commands[0].alarm, 1u);
  EXPECT_EQ(commands[0].capture.capture, "c1");
  EXPECT_EQ(commands[1].alarm, 3u);
}

TEST_F(AlarmPolicyTest, RunsTheCommandWithoutCaptures) {
  Start(0, Command::kOne);
  policy_->Add(AlarmOf(1, Alarm::Kind::kHang));
  EXPECT_EQ(Commands(1).at(0).capture.capture, "");
  EXPECT_TRUE(requests_.empty());
  EXPECT_TRUE(done_.empty());
}

TEST_F(AlarmPolicyTest, DoesNothingUnlessAsked) {
  Start(0);
  policy_->Add(AlarmOf(1, Alarm::Kind::kHang));
  policy_->Shutdown();
  EXPECT_TRUE(requests_.empty());
  EXPECT_TRUE(done_.empty());
}

}  // namespace
}  // namespace lockstep::aggregator
