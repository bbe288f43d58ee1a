#include "aggregator/live/slowdown_captures.h"

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
  uint64_t slowdown = 0;
  std::string capture, problem;
};

class SlowdownCapturesTest : public testing::Test {
 protected:
  void Start(size_t per_hour) {
    captures_ = std::make_unique<SlowdownCaptures>(
        SlowdownCapturesOptions{
            .per_hour = per_hour, .steps = 5, .now = [this] { return MonoTime(now_ns_); }},
        [this](const v1::TraceRequest& request, const Caller& caller, const CaptureSession::Emit& emit) {
          emit({});
          return Trace(request, caller);
        },
        [this](uint64_t slowdown, const std::string& capture, const std::string& problem) {
          MutexLock lock(&mutex_);
          done_.push_back({slowdown, capture, problem});
          changed_.SignalAll();
        },
        audit_);
    captures_->Start();
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
  // Adds a slowdown of a job, and waits for its end.
  DoneCall Add(uint64_t id, const std::string& job = "train") {
    NewSlowdown slowdown{.id = id, .job = {job, 1000}, .slowdown = {}};
    slowdown.slowdown.set_rank(3);
    slowdown.slowdown.set_step_now_ns(Nanos::Millis(400).ns());
    captures_->Add(slowdown);
    MutexLock lock(&mutex_);
    EXPECT_TRUE(changed_.WaitFor(&mutex_, Nanos::Seconds(10),
                                 [&] { return !done_.empty() && done_.back().slowdown == id; }));
    return done_.empty() ? DoneCall() : done_.back();
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
  std::vector<DoneCall> done_;
  std::unique_ptr<SlowdownCaptures> captures_;
};

TEST_F(SlowdownCapturesTest, CapturesSomeStepsOfTheJobAndSaysWhy) {
  Start(2);
  EXPECT_EQ(Add(1).capture, "c1");
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_EQ(requests_[0].job(), "train");
  EXPECT_EQ(requests_[0].duration_ns(), 2'000'000'000);
  EXPECT_THAT(absl::StrJoin(lines_.lines(), "\n"), HasSubstr("\"because\":\"rank 3 takes"));
}

TEST_F(SlowdownCapturesTest, OneCaptureServesTheRanksOfOneIncident) {
  Start(10);
  EXPECT_EQ(Add(1).capture, "c1");
  now_ns_ += Nanos::Seconds(60).ns();
  EXPECT_EQ(Add(2).capture, "c1");
  now_ns_ += Nanos::Seconds(600).ns();
  EXPECT_EQ(Add(3).capture, "c2");
}

TEST_F(SlowdownCapturesTest, KeepsTheLimit) {
  Start(1);
  EXPECT_EQ(Add(1).capture, "c1");
  now_ns_ += Nanos::Seconds(1800).ns();
  EXPECT_THAT(Add(2).problem, HasSubstr("--slowdown-captures allows 1 per hour"));
  now_ns_ += Nanos::Seconds(1800).ns();
  EXPECT_EQ(Add(3).capture, "c2");
}

TEST_F(SlowdownCapturesTest, TakesThePastIfTheGpuCannotBeCaptured) {
  gpu_fails_ = true;
  Start(1);
  EXPECT_EQ(Add(1).capture, "c2");
  ASSERT_EQ(requests_.size(), 2u);
  EXPECT_EQ(requests_[1].past_ns(), 30'000'000'000);
  EXPECT_EQ(requests_[1].duration_ns(), 0);
}

TEST_F(SlowdownCapturesTest, SaysThatBothFailed) {
  gpu_fails_ = past_fails_ = true;
  Start(10);
  const DoneCall done = Add(1);
  EXPECT_EQ(done.capture, "");
  EXPECT_EQ(done.problem, "no data");
  EXPECT_THAT(Add(2).problem, HasSubstr("a capture for another slowdown of the job failed"));
}

TEST_F(SlowdownCapturesTest, MakesNoneWithoutALimit) {
  Start(0);
  captures_->Add({.id = 1, .job = {"train", 1000}, .slowdown = {}});
  captures_->Shutdown();
  EXPECT_TRUE(requests_.empty());
  EXPECT_TRUE(done_.empty());
}

}  // namespace
}  // namespace lockstep::aggregator
