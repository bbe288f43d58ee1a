#include "base/log/audit_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "absl/strings/str_join.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SetClock final : public Clock {
 public:
  MonoTime Monotonic() const override { return MonoTime(now.ns()); }
  HostTime Realtime() const override { return HostTime(1'790'000'000'000'000'000 + now.ns()); }
  Nanos now;
};

struct Lines {
  std::vector<std::string> kept;
  bool full = false;
};
class FakeSink final : public LineSink {
 public:
  explicit FakeSink(Lines& lines) : lines_(lines) {}
  absl::Status Append(std::string_view line) override {
    if (lines_.full) return absl::ResourceExhaustedError("cannot write a: the disk is full");
    lines_.kept.emplace_back(line);
    return absl::OkStatus();
  }

 private:
  Lines& lines_;
};

class AuditLogTest : public testing::Test {
 protected:
  AuditLog::Options Options() {
    return {.program = "lockstep-aggregator 0.1.0",
            .session = 0xAB,
            .user_name = [](uid_t uid) { return std::string(uid == 1000 ? "alice" : ""); },
            .log = [this](LogLevel, const char* event,
                          std::initializer_list<LogField>) { events_.emplace_back(event); }};
  }
  Lines lines_;
  std::vector<std::string> events_;
  SetClock clock_;
  AuditLog log_{Options(), std::make_unique<FakeSink>(lines_), clock_};
};

const AuditCaller kAlice = {"munge", 1000, "10.0.0.7:41234"};

TEST_F(AuditLogTest, LinesMatchTheFormatPage) {
  {
    AuditLog::Call call =
        log_.Begin("trace", kAlice, {{"job", "4711"}, {"ranks", "0-3"}, {"duration_ns", 2'000'000'000}});
    clock_.now += Nanos::Millis(2500);
    call.End("partial", "rank 3 is gone: \"it\nended\"", {{"capture", "20260301-120000-0000aa"}});
  }
  log_.Note("retire", {"program", std::nullopt, ""}, "ok",
            {{"capture", "20260101-000000-000001"}, {"limit", "age"}, {"bytes", 42}});
  log_.Refused("fetch", {"", std::nullopt, "10.0.0.8:5"}, "no token came");
  const std::string got = absl::StrJoin(lines_.kept, "\n") + "\n";
  const std::string path = LOCKSTEP_SOURCE_DIR "/tests/golden/audit/audit_v1.jsonl";
  std::ifstream file(path);
  const std::string want{std::istreambuf_iterator<char>(file), {}};
  if (got != want) std::ofstream(path + ".actual") << got;
  EXPECT_EQ(got, want) << "where that is meant: mv " << path << ".actual " << path;
}

TEST_F(AuditLogTest, WritesACallBeforeItsEffectAndAlwaysItsEnd) {
  {
    const AuditLog::Call call = log_.Begin("stop", kAlice, {});
    ASSERT_EQ(lines_.kept.size(), 1u);
    EXPECT_THAT(lines_.kept[0], HasSubstr("\"stage\":\"begin\""));
  }
  EXPECT_THAT(lines_.kept, ElementsAre(testing::_, HasSubstr("\"stage\":\"end\",\"result\":\"unknown\"")));
}

TEST_F(AuditLogTest, CountsLostLinesAndReportsThemOnce) {
  lines_.full = true;
  for (int i = 0; i < 3; ++i) log_.Note("session", kAlice, "ok", {});
  EXPECT_THAT(events_, ElementsAre("audit_failed"));
  lines_.full = false;
  log_.Note("session", kAlice, "ok", {});
  log_.Note("session", kAlice, "ok", {});
  EXPECT_THAT(events_, ElementsAre("audit_failed", "audit_works_again"));
  EXPECT_THAT(lines_.kept,
              ElementsAre(HasSubstr("\"missing_before\":3,"), testing::Not(HasSubstr("missing_before"))));
  EXPECT_EQ(log_.counts().failed, 3u);
  EXPECT_EQ(log_.counts().written, 2u);
}

TEST_F(AuditLogTest, LimitsLinesAboutRefusals) {
  for (uint64_t i = 0; i < AuditLog::kRefusalsPerMinute + 5; ++i) log_.Refused("status", {}, "no token came");
  EXPECT_EQ(lines_.kept.size(), AuditLog::kRefusalsPerMinute);
  EXPECT_EQ(log_.counts().suppressed, 5u);
  log_.Note("session", kAlice, "ok", {});
  EXPECT_THAT(lines_.kept.back(), HasSubstr("\"missing_before\":5,"));
  clock_.now += Nanos::Seconds(60);
  log_.Refused("status", {}, "no token came");
  EXPECT_THAT(lines_.kept.back(), HasSubstr("\"result\":\"refused\",\"text\":\"no token came\",\"prev\""));
}

TEST_F(AuditLogTest, DoesNothingWithoutASink) {
  AuditLog off(Options(), nullptr, clock_);
  off.Begin("trace", kAlice, {}).End("ok", "");
  off.Refused("trace", kAlice, "no");
  EXPECT_EQ(off.counts().written + off.counts().failed + off.counts().suppressed, 0u);
}

}  // namespace
}  // namespace lockstep
