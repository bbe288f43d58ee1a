#include "aggregator/notice/gpu_windows.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log/line_sink_fake.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::aggregator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StillClock final : public JobClock {
 public:
  JobTime Now() const override { return JobTime(1'800'000'000'000'000'000); }
};

class GpuWindowsTest : public testing::Test {
 protected:
  GpuWindowsTest() { windows_.Start(); }

  v1::TraceFinished Trace(const v1::TraceRequest& request, const Caller& caller) {
    if (during_) std::exchange(during_, nullptr)();
    MutexLock lock(&mutex_);
    requests_.push_back(request);
    EXPECT_TRUE(caller.MayCapture({"train", 1000}));
    EXPECT_FALSE(caller.MayCapture({"train", 1001}));
    v1::TraceFinished finished;
    finished.set_outcome(fails_ ? v1::TraceFinished::FAILED : v1::TraceFinished::COMPLETE);
    if (fails_) finished.set_text("a rank is being captured already");
    finished.set_capture(absl::StrCat("c", requests_.size()));
    stored_.insert(finished.capture());
    return finished;
  }
  static v1::RecordRequest Request(Nanos window = Nanos::Seconds(1), Nanos period = Nanos::Seconds(60),
                                   uint32_t keep = 2) {
    v1::RecordRequest request;
    request.set_job("train");
    request.set_window_ns(window.ns());
    request.set_period_ns(period.ns());
    request.set_keep(keep);
    return request;
  }
  static v1::RecordRequest Off() {
    v1::RecordRequest request;
    request.set_job("train");
    return request;
  }
  v1::StatusReply Status(const Caller& caller = Caller::All()) {
    v1::StatusReply reply;
    windows_.AddTo(reply, "", caller);
    return reply;
  }
  // Waits until `done` is true.
  template <typename Done>
  static void WaitUntil(const Done& done) {
    for (int i = 0; i < 2000 && !done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_TRUE(done());
  }
  // Waits until this many windows were made and tidied up after.
  v1::JobRecording WaitForWindows(uint64_t count) {
    WaitUntil([&] { return tidied_ >= count; });
    const v1::StatusReply status = Status();
    return status.recordings_size() == 1 ? status.recordings(0) : v1::JobRecording();
  }

  static constexpr Nanos kPeriod = Nanos::Seconds(60);
  StillClock clock_;
  SystemClock audit_clock_;
  RecordedLines lines_;
  AuditLog audit_{{.program = "p", .session = 1, .user_name = [](uid_t) { return std::string(); }},
                  std::make_unique<FakeLineSink>(lines_),
                  audit_clock_};
  std::atomic<int64_t> now_ns_ = 1'000'000'000'000;
  std::atomic<bool> fails_ = false, running_ = true;
  Mutex mutex_;
  std::vector<v1::TraceRequest> requests_;
  std::set<std::string> stored_;
  std::function<void()> during_;  // called in the first window; set before it
  std::string read_;              // a capture that cannot be removed now
  std::atomic<uint64_t> tidied_ = 0;
  GpuWindows windows_{clock_,
                      audit_,
                      {.most_kept = 10,
                       .now = [this] { return MonoTime(now_ns_); },
                       .trace = [this](const v1::TraceRequest& request, const Caller& caller,
                                       const CaptureSession::Emit&) { return Trace(request, caller); },
                       .resolve = [](const std::string& job, const Caller& caller) -> absl::StatusOr<JobKey> {
                         if (job != "train") return absl::NotFoundError("no such job");
                         absl::Status allowed = caller.CheckCapture("job train", {"train", 1000});
                         if (!allowed.ok()) return allowed;
                         return JobKey{"train", 1000};
                       },
                       .named =
                           [](const std::string& job) {
                             return job == "4711" ? std::set<JobKey>{{"train", 1000}} : std::set<JobKey>();
                           },
                       .running =
                           [this] {
                             return running_ ? std::set<JobKey>{{"train", 1000}} : std::set<JobKey>();
                           },
                       .tidy =
                           [this] {
                             const std::set<std::string> surplus = windows_.Surplus();
                             MutexLock lock(&mutex_);
                             for (const std::string& capture : surplus) {
                               if (capture != read_) stored_.erase(capture);
                             }
                             ++tidied_;
                           },
                       .stored =
                           [this](const std::string& capture) {
                             MutexLock lock(&mutex_);
                             return stored_.contains(capture);
                           }}};
};

TEST_F(GpuWindowsTest, CapturesAgainAndAgainAndKeepsTheLast) {
  const auto recording = windows_.Record(Request(), Caller::All());
  ASSERT_TRUE(recording.ok()) << recording.status();
  EXPECT_EQ(recording->window_ns(), 1'000'000'000);
  WaitForWindows(1);
  for (uint64_t window = 2; window <= 4; ++window) {
    now_ns_ += kPeriod.ns();
    WaitForWindows(window);
  }
  const v1::JobRecording state = WaitForWindows(4);
  EXPECT_EQ(state.windows(), 4u);
  EXPECT_THAT(state.captures(), ElementsAre("c3", "c4"));
  EXPECT_EQ(state.failed(), 0u);
  MutexLock lock(&mutex_);
  EXPECT_THAT(stored_, ElementsAre("c3", "c4"));
  EXPECT_EQ(requests_[0].duration_ns(), 1'000'000'000);
  EXPECT_EQ(requests_[0].job(), "1000:train");
  EXPECT_THAT(absl::StrJoin(lines_.lines(), "\n"), HasSubstr("lockstep record on, by "));
}

TEST_F(GpuWindowsTest, ACaptureThatIsReadIsRemovedLater) {
  {
    MutexLock lock(&mutex_);
    read_ = "c1";
  }
  ASSERT_TRUE(windows_.Record(Request(Nanos::Seconds(1), kPeriod, 1), Caller::All()).ok());
  WaitForWindows(1);
  now_ns_ += kPeriod.ns();
  EXPECT_THAT(WaitForWindows(2).captures(), ElementsAre("c2"));
  EXPECT_THAT(windows_.Surplus(), ElementsAre("c1"));
  {
    MutexLock lock(&mutex_);
    read_.clear();
  }
  now_ns_ += kPeriod.ns();
  WaitForWindows(3);
  WaitUntil([&] { return windows_.Surplus().empty(); });
}

TEST_F(GpuWindowsTest, ForgetsCapturesThatTheStoreHasRemoved) {
  ASSERT_TRUE(windows_.Record(Request(), Caller::All()).ok());
  WaitForWindows(1);
  {
    MutexLock lock(&mutex_);
    stored_.erase("c1");
  }
  now_ns_ += kPeriod.ns();
  WaitForWindows(2);
  WaitUntil([&] { return Status().recordings(0).captures_size() == 1; });
  EXPECT_THAT(Status().recordings(0).captures(), ElementsAre("c2"));
}

TEST_F(GpuWindowsTest, ARequestDuringAWindowBeginsAnotherAtOnce) {
  during_ = [this] { EXPECT_TRUE(windows_.Record(Request(Nanos::Seconds(2)), Caller::All()).ok()); };
  ASSERT_TRUE(windows_.Record(Request(), Caller::All()).ok());
  WaitForWindows(2);
  MutexLock lock(&mutex_);
  EXPECT_EQ(requests_.at(0).duration_ns(), 1'000'000'000);
  EXPECT_EQ(requests_.at(1).duration_ns(), 2'000'000'000);
}

TEST_F(GpuWindowsTest, LateWindowsAreLeftOut) {
  ASSERT_TRUE(windows_.Record(Request(), Caller::All()).ok());
  WaitForWindows(1);
  now_ns_ += 5 * kPeriod.ns();
  WaitForWindows(2);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(tidied_, 2u);
}

TEST_F(GpuWindowsTest, ShowsWhyAWindowHasNoCapture) {
  fails_ = true;
  ASSERT_TRUE(windows_.Record(Request(), Caller::All()).ok());
  const v1::JobRecording state = WaitForWindows(1);
  EXPECT_EQ(state.failed(), 1u);
  EXPECT_EQ(state.problem(), "a rank is being captured already");
  EXPECT_TRUE(state.captures().empty());
  MutexLock lock(&mutex_);
  EXPECT_TRUE(stored_.empty()) << "the store would fill up";
}

TEST_F(GpuWindowsTest, EndsOnRequestAndAfterTheJob) {
  EXPECT_TRUE(absl::IsNotFound(windows_.Record(Off(), Caller::All()).status()));
  ASSERT_TRUE(windows_.Record(Request(), Caller::All()).ok());
  v1::RecordRequest off = Off();
  off.set_job("4711");
  EXPECT_TRUE(windows_.Record(off, Caller::All()).ok()) << "its number at the scheduler";
  EXPECT_EQ(Status().recordings_size(), 0);
  ASSERT_TRUE(windows_.Record(Request(), Caller::All()).ok());
  WaitForWindows(1);
  running_ = false;
  now_ns_ += Nanos::Seconds(601).ns();
  WaitUntil([&] { return Status().recordings_size() == 0; });
}

TEST_F(GpuWindowsTest, OnlyThoseWhoMayCaptureItRecordAJob) {
  const Caller owner = Caller::User(1000, {.capture_own = true});
  const Caller viewer = Caller::User(1002, {.see_all = true});
  const Caller other = Caller::User(1001, {.capture_own = true});
  EXPECT_TRUE(absl::IsPermissionDenied(windows_.Record(Request(), viewer).status()));
  EXPECT_TRUE(absl::IsPermissionDenied(windows_.Record(Request(), other).status()));
  ASSERT_TRUE(windows_.Record(Request(), owner).ok());
  EXPECT_EQ(Status(viewer).recordings_size(), 1);
  EXPECT_EQ(Status(other).recordings_size(), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(windows_.Record(Off(), viewer).status()));
  EXPECT_TRUE(absl::IsNotFound(windows_.Record(Off(), other).status()));
  EXPECT_TRUE(windows_.Record(Off(), owner).ok());
}

TEST_F(GpuWindowsTest, RefusesWhatIsTooMuch) {
  for (const v1::RecordRequest& request :
       {Request(Nanos::Millis(99)), Request(Nanos::Seconds(11), Nanos::Seconds(600)),
        Request(Nanos::Seconds(1), Nanos::Seconds(9)), Request(Nanos::Seconds(7)),
        Request(Nanos::Seconds(1), Nanos::Seconds(90'000)), Request(Nanos::Seconds(1), kPeriod, 0),
        Request(Nanos(-5)), Request(Nanos::Seconds(1), Nanos(-5))})
    EXPECT_TRUE(absl::IsInvalidArgument(windows_.Record(request, Caller::All()).status()))
        << request.window_ns() << " " << request.period_ns();
  EXPECT_TRUE(absl::IsResourceExhausted(
      windows_.Record(Request(Nanos::Seconds(1), kPeriod, 11), Caller::All()).status()));
}

TEST_F(GpuWindowsTest, RecordsOnlyWhileItRuns) {
  windows_.Shutdown();
  EXPECT_TRUE(absl::IsFailedPrecondition(windows_.Record(Request(), Caller::All()).status()));
}

}  // namespace
}  // namespace lockstep::aggregator
