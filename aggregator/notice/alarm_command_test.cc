#include "aggregator/notice/alarm_command.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/files/read_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::aggregator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Alarm Hang() {
  Alarm alarm;
  alarm.kind = Alarm::Kind::kHang;
  alarm.job = {"4711", 1000};
  alarm.text =
      "rank 12 (node3, local rank 4) never entered all_reduce #1,532 of tp_3; 7 ranks wait in it for 94 s";
  alarm.ranks = {RankId(12)};
  alarm.hosts = {"node3"};
  alarm.noticed = JobTime(1'790'000'000'000'000'000);
  return alarm;
}

class AlarmCommandTest : public testing::Test {
 protected:
  AlarmCommandTest() {
    folder_ = absl::StrCat(testing::TempDir(), "alarm_command_test.", getpid());
    std::filesystem::create_directory(folder_);
    EXPECT_EQ(chmod(folder_.c_str(), 0700), 0);
  }
  ~AlarmCommandTest() override { std::filesystem::remove_all(folder_); }
  std::string Script(const std::string& text, mode_t mode = 0700) {
    std::string path = folder_ + "/script";
    std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }
  void Run(const std::string& path, const AlarmCapture& capture = {}) {
    AlarmCommand(path, [this](LogLevel, const char* event, std::initializer_list<LogField> fields) {
      events_.emplace_back(event);
      for (const LogField& field : fields) {
        if (std::string_view(field.key) == "reason") reason_ = field.value;
      }
    }).Run(Hang(), capture);
  }

  std::string folder_, reason_;
  std::vector<std::string> events_;
};

TEST_F(AlarmCommandTest, WritesTheGoldenDocument) {
  EXPECT_EQ(AlarmDocument(Hang(), {.capture = "20261128-101203-5b13c1", .problem = ""}),
            FileText(LOCKSTEP_GOLDEN_DIR "/alarm/alarm_v1.json").value());
}

TEST_F(AlarmCommandTest, GivesTheDocumentToTheProgramOnly) {
  Run(Script("cat > " + folder_ + "/in; echo \"$#\" > " + folder_ + "/count; env > " + folder_ + "/env"),
      {.capture = "", .problem = "no data"});
  EXPECT_THAT(events_, ElementsAre("alarm_command_done"));
  EXPECT_EQ(FileText(folder_ + "/in").value(), AlarmDocument(Hang(), {.capture = "", .problem = "no data"}));
  EXPECT_EQ(FileText(folder_ + "/count").value(), "0\n");
  EXPECT_THAT(FileText(folder_ + "/env").value(), testing::Not(HasSubstr("4711")));
}

TEST_F(AlarmCommandTest, LogsAFailure) {
  Run(Script("exit 3"));
  EXPECT_THAT(events_, ElementsAre("alarm_command_failed"));
  EXPECT_EQ(reason_, "it exited with 3");
  Run(folder_ + "/missing");
  EXPECT_THAT(reason_, HasSubstr("does not exist"));
}

TEST_F(AlarmCommandTest, DoesNotWaitForWhatTheProgramLeftBehind) {
  const auto begun = std::chrono::steady_clock::now();
  Run(Script("sleep 20 &"));
  EXPECT_THAT(events_, ElementsAre("alarm_command_done"));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(15));
}

TEST_F(AlarmCommandTest, KillsTheProgramAndItsChildren) {
  const std::string pid = folder_ + "/pid";
  AlarmCommand command(
      Script("sleep 1000 & echo $! > " + pid + "; wait"),
      [this](LogLevel, const char* event, std::initializer_list<LogField>) { events_.emplace_back(event); });
  std::thread runs([&] { command.Run(Hang(), {}); });
  while (FileText(pid).value_or("").find('\n') == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  command.Stop();
  runs.join();
  EXPECT_THAT(events_, ElementsAre("alarm_command_failed"));
  const std::string child = FileText(pid).value();
  const std::string status = absl::StrCat("/proc/", child.substr(0, child.size() - 1), "/status");
  // Until its new parent has waited for it, it is a zombie.
  while (FileText(status).value_or("State:\tZ").find("State:\tZ") == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

TEST_F(AlarmCommandTest, ChecksTheProgram) {
  EXPECT_TRUE(CheckAlarmCommand(Script("exit 0")).ok());
  EXPECT_THAT(CheckAlarmCommand("script").message(), HasSubstr("absolute path"));
  EXPECT_THAT(CheckAlarmCommand(folder_ + "/missing").message(), HasSubstr("does not exist"));
  EXPECT_THAT(CheckAlarmCommand(folder_).message(), HasSubstr("not an executable file"));
  EXPECT_THAT(CheckAlarmCommand(Script("exit 0", 0600)).message(), HasSubstr("chmod +x"));
  EXPECT_THAT(CheckAlarmCommand(Script("exit 0", 0777)).message(), HasSubstr("other users may change"));
  const std::string script = Script("exit 0");
  if (geteuid() == 0) {
    ASSERT_EQ(chown(script.c_str(), 65534, 65534), 0);
    EXPECT_THAT(CheckAlarmCommand(script).message(), HasSubstr("chown it"));
    ASSERT_EQ(chown(script.c_str(), 0, 0), 0);
  }
  const std::string open = folder_ + "/open";
  std::filesystem::create_directory(open);
  ASSERT_EQ(chmod(open.c_str(), 0777), 0);
  std::filesystem::copy(script, open + "/script");
  EXPECT_THAT(CheckAlarmCommand(open + "/script").message(), HasSubstr("other users may replace"));
  std::filesystem::create_symlink(open + "/script", folder_ + "/link");
  EXPECT_THAT(CheckAlarmCommand(folder_ + "/link").message(), HasSubstr("other users may replace"));
  if (geteuid() == 0) {
    // A folder's owner may rename what is in it.
    ASSERT_EQ(chown(open.c_str(), 65534, 65534), 0);
    ASSERT_EQ(chmod(open.c_str(), 01755), 0);
    EXPECT_THAT(CheckAlarmCommand(open + "/script").message(), HasSubstr("other users may replace"));
  }
}

}  // namespace
}  // namespace lockstep::aggregator
