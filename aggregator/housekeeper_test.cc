#include "aggregator/housekeeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/files/own_folder.h"
#include "base/log/line_sink_fake.h"

namespace lockstep::aggregator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class SetClock final : public aggregator::JobClock {
 public:
  JobTime Now() const override { return JobTime(ns); }
  std::atomic<int64_t> ns = 0;
};

class HousekeeperTest : public ::testing::Test {
 protected:
  HousekeeperTest() {
    char pattern[] = "/tmp/lockstep-house-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    for (const char* name : {"/20260101-000000-00000a", "/20260201-000000-00000b"})
      EXPECT_TRUE(MakeOwnFolder(folder_ + name, OwnFolder::kStoredCapture).ok());
    clock_.ns = CaptureTime("20260202-000000-000000")->ns();
  }
  ~HousekeeperTest() override { fs::remove_all(folder_); }
  HousekeeperOptions Options(Nanos period = Nanos::Seconds(3600)) {
    HousekeeperOptions options;
    options.folder = folder_;
    options.retention.age = Nanos::Seconds(30 * 86400);
    options.period = period;
    options.mono = [this] { return MonoTime(mono_ns_); };
    options.log = [this](LogLevel, const char* event, std::initializer_list<LogField>) {
      events_.emplace_back(event);
    };
    return options;
  }
  bool Exists(const std::string& name) const { return fs::exists(folder_ + "/" + name); }

  std::string folder_;
  SetClock clock_;
  std::atomic<int64_t> mono_ns_ = 0;
  aggregator::CaptureUse use_;
  ServerMetrics metrics_;
  std::vector<std::string> events_;
  RecordedLines audited_;
  SystemClock audit_clock_;
  AuditLog audit_{{.program = "test", .session = 1, .user_name = nullptr},
                  std::make_unique<FakeLineSink>(audited_),
                  audit_clock_};
};

TEST_F(HousekeeperTest, LogsAuditsAndCountsRemovals) {
  Housekeeper house(
      Options(), clock_, use_, [](const std::string&) { return false; }, audit_, metrics_);
  house.Tidy();
  EXPECT_FALSE(Exists("20260101-000000-00000a"));
  EXPECT_TRUE(Exists("20260201-000000-00000b"));
  EXPECT_THAT(events_, ElementsAre("capture_removed"));
  EXPECT_THAT(audited_.lines(), ElementsAre(::testing::AllOf(HasSubstr("\"what\":\"retire\""),
                                                             HasSubstr("\"limit\":\"age\""))));
  EXPECT_EQ(metrics_.store().captures, 1u);
}

TEST_F(HousekeeperTest, AClockStepRemovesNothing) {
  Housekeeper house(
      Options(), clock_, use_, [](const std::string&) { return false; }, audit_, metrics_);
  house.Tidy();
  clock_.ns += Nanos::Seconds(365 * 86400).ns();
  house.Tidy();
  EXPECT_TRUE(Exists("20260201-000000-00000b"));
  EXPECT_THAT(events_, ElementsAre("capture_removed", "clock_stepped"));
}

TEST_F(HousekeeperTest, RemovesExpiredCapturesWithoutNewCaptures) {
  Housekeeper house(
      Options(Nanos::Millis(5)), clock_, use_, [](const std::string&) { return false; }, audit_, metrics_);
  house.Start();
  // Advances both clocks together, one day at a time, so that the time of day stays trusted.
  for (int i = 0; i < 400 && Exists("20260201-000000-00000b"); ++i) {
    const int64_t day = Nanos::Seconds(86400).ns();
    mono_ns_ += day;
    clock_.ns += day;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  house.Stop();
  EXPECT_FALSE(Exists("20260201-000000-00000b"));
}

}  // namespace
}  // namespace lockstep::aggregator
