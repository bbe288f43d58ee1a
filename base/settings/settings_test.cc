#include "base/settings/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>

#include "base/settings/example_file.h"

namespace lockstep::settings {
namespace {

using testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::CaptureStdout;
using testing::internal::GetCapturedStderr;
using testing::internal::GetCapturedStdout;

// Tests a program with an option of each kind.
class SettingsTest : public testing::Test {
 protected:
  SettingsTest() {
    EXPECT_NE(::mkdtemp(folder_), nullptr);
    file_ = std::string(folder_) + "/f.conf";
  }
  ~SettingsTest() override {
    ::unlink(file_.c_str());
    ::rmdir(folder_);
  }

  void Write(const std::string& text) { std::ofstream(file_) << text; }

  // Returns the result of Parse. The members below then have the values of the options.
  std::optional<int> Parse(std::vector<const char*> argv, std::vector<const char*> environment = {}) {
    CLI::App app("It tests.", "tester");
    size_ = 0, list_.clear(), name_.clear(), quiet_ = false;
    app.add_option("--size", size_, "How large")
        ->transform(CLI::AsSizeValue(false))
        ->check(CLI::Range(1024, 1 << 20))
        ->default_str("8 KiB")
        ->envname("OLD_SIZE");
    app.add_option("--list", list_, "Several");
    app.add_option("--name", name_, "Who");
    app.add_flag("--quiet", quiet_, "Say nothing");
    app.set_version_flag("--version", "tester 1");
    argv.insert(argv.begin(), "tester");
    environment.push_back(nullptr);
    Settings settings(app, program_, environment.data());
    return settings.Parse(static_cast<int>(argv.size()), argv.data());
  }
  std::string ErrorsOf(std::vector<const char*> argv, std::vector<const char*> environment = {}) {
    CaptureStderr();
    EXPECT_EQ(Parse(std::move(argv), std::move(environment)), kUsage);
    return GetCapturedStderr();
  }

  std::vector<Conflict> conflicts_;
  const Program program_{.name = "tester",
                         .version = "tester 1",
                         .summary = "tests",
                         .prefix = "TESTER_",
                         .file_name = "f.conf",
                         .defaults_here = {{"name", "me"}},
                         .files = {},
                         .rules = [this] { return conflicts_; }};
  char folder_[32] = "/tmp/lockstep-settings-XXXXXX";
  std::string file_;
  uint64_t size_ = 0;
  std::vector<std::string> list_;
  std::string name_;
  bool quiet_ = false;
};

TEST_F(SettingsTest, FlagsWinOverTheEnvironmentAndItOverTheFile) {
  Write("size = 2 KiB\nname = file\nlist = a b\nlist = c\nquiet = true\n");
  ASSERT_EQ(Parse({"--config", file_.c_str()}), std::nullopt);
  EXPECT_EQ(size_, 2048u);
  EXPECT_EQ(name_, "file");
  EXPECT_EQ(list_, (std::vector<std::string>{"a b", "c"}));
  EXPECT_TRUE(quiet_);
  ASSERT_EQ(
      Parse({"--config", file_.c_str()}, {"TESTER_SIZE=3KiB", "TESTER_LIST=x, y", "TESTER_QUIET=false"}),
      std::nullopt);
  EXPECT_EQ(size_, 3072u);
  EXPECT_EQ(list_, (std::vector<std::string>{"x", "y"}));
  EXPECT_FALSE(quiet_);
  EXPECT_EQ(name_, "file");
  const std::string config = "--config=" + file_;
  ASSERT_EQ(Parse({config.c_str(), "--size=4KiB", "--name", "flag", "--list", "z"},
                  {"TESTER_SIZE=3KiB", "TESTER_NAME=e"}),
            std::nullopt);
  EXPECT_EQ(size_, 4096u);
  EXPECT_EQ(name_, "flag");
  EXPECT_EQ(list_, (std::vector<std::string>{"z"}));
}

TEST_F(SettingsTest, TheEnvironmentMayNameTheFileAndASharedVariableComesSecond) {
  Write("name = file\n");
  const std::string config = "TESTER_CONFIG=" + file_;
  ASSERT_EQ(Parse({}, {config.c_str(), "OLD_SIZE=2KiB"}), std::nullopt);
  EXPECT_EQ(name_, "file");
  EXPECT_EQ(size_, 2048u);
  ASSERT_EQ(Parse({}, {"OLD_SIZE=2KiB", "TESTER_SIZE=5KiB"}), std::nullopt);
  EXPECT_EQ(size_, 5120u);
  ASSERT_EQ(Parse({}, {"TESTER_NAME=", "TESTER_NAMES=x"}), std::nullopt) << "set to nothing is not set";
  EXPECT_EQ(name_, "");
}

TEST_F(SettingsTest, ReportsAllErrorsAtOnceWithTheirPlaces) {
  Write("sice = 2 KiB\nname = a\nname = b\nsize = 3 bytes too many\nconfig = x\nnonsense\nlist = fine\n");
  const std::string said = ErrorsOf({"--config", file_.c_str()}, {"TESTER_QUIET=perhaps"});
  EXPECT_THAT(said, HasSubstr("tester: " + file_ + ":1: unknown key sice; did you mean size?"));
  EXPECT_THAT(said, HasSubstr(file_ + ":3: name is already set at " + file_ + ":2"));
  EXPECT_THAT(said, HasSubstr(file_ + ":4: --size"));
  EXPECT_THAT(said, HasSubstr(file_ + ":5: unknown key config")) << "a file names no other file";
  EXPECT_THAT(said, HasSubstr(file_ + ":6: the line is not `key = value`"));
  EXPECT_THAT(said, HasSubstr("TESTER_QUIET: "));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 6) << said;
}

TEST_F(SettingsTest, AttributesAnInvalidFlagToTheFlag) {
  Write("name = a\n");
  EXPECT_EQ(ErrorsOf({"--config", file_.c_str(), "--size", "1"}).find(file_), std::string::npos);
  EXPECT_THAT(ErrorsOf({"--config", (file_ + "x").c_str()}),
              HasSubstr("cannot read the configuration file " + file_ + "x"));
}

TEST_F(SettingsTest, HelpWorksWithAnInvalidFile) {
  Write("nonsense\n");
  CaptureStdout();
  EXPECT_EQ(Parse({"--config", file_.c_str(), "--help"}), kDone);
  EXPECT_THAT(GetCapturedStdout(),
              testing::AllOf(HasSubstr("--print-config"), HasSubstr("TESTER_LOG_LEVEL")));
}

TEST_F(SettingsTest, PrintsEachValueWithItsOrigin) {
  Write("list = a\nlist = b\n");
  CaptureStdout();
  EXPECT_EQ(Parse({"--config", file_.c_str(), "--quiet", "--print-config"}, {"OLD_SIZE=2KiB"}), kDone);
  std::string said = GetCapturedStdout();
  said.erase(std::unique(said.begin(), said.end(), [](char a, char b) { return a == ' ' && b == ' '; }),
             said.end());
  EXPECT_EQ(said, "# tester 1\nsize 2KiB OLD_SIZE\nlist a " + file_ + ":1\nlist b " + file_ +
                      ":2\nname me default\nquiet true flag\n");
}

TEST_F(SettingsTest, TheExampleExplainsEveryKeyAndIsValid) {
  CaptureStdout();
  EXPECT_EQ(Parse({"--example-config"}), kDone);
  const std::string example = GetCapturedStdout();
  EXPECT_THAT(example, HasSubstr("\n# How large. Environment: TESTER_SIZE or OLD_SIZE.\n#size = 8 KiB\n"));
  EXPECT_THAT(
      example,
      HasSubstr("\n# Several. May be repeated on several lines. Environment: TESTER_LIST.\n#list =\n"));
  EXPECT_THAT(example, HasSubstr("\n#name =\n")) << "its default is this machine's";
  EXPECT_EQ(example.find("#config"), std::string::npos);
  Write(example);
  EXPECT_EQ(Parse({"--config", file_.c_str()}), std::nullopt);
}

TEST_F(SettingsTest, WarnsAboutAVariableWithoutAKey) {
  CaptureStderr();
  EXPECT_EQ(
      Parse({}, {"TESTER_SICE=2KiB", "TESTER_CONFIG=", "TESTER_NAME=a", "TESTERS=1", "TESTER_ABCDEFGHIJK=1"}),
      std::nullopt);
  EXPECT_EQ(GetCapturedStderr(),
            "tester: warning: TESTER_SICE matches no key and is ignored; did you mean TESTER_SIZE?\n"
            "tester: warning: TESTER_ABCDEFGHIJK matches no key and is ignored\n");
}

TEST_F(SettingsTest, ChecksRulesBetweenKeysAtStartAndAtCheck) {
  Write("size = 2 KiB\nname = a\n");
  conflicts_ = {{Conflict::Weight::kWarning, {"name"}, "a is an odd name"}};
  CaptureStderr();
  EXPECT_EQ(Parse({"--config", file_.c_str()}), std::nullopt);
  EXPECT_EQ(GetCapturedStderr(), "tester: warning: " + file_ + ":2: a is an odd name\n");
  conflicts_.push_back({Conflict::Weight::kError, {"size", "quiet"}, "they do not fit"});
  const std::string at_start = ErrorsOf({"--config", file_.c_str()});
  CaptureStdout();
  const std::string at_check = ErrorsOf({"--config", file_.c_str(), "--print-config"});
  EXPECT_THAT(GetCapturedStdout(), HasSubstr("size"));
  EXPECT_EQ(at_start, at_check);
  EXPECT_THAT(at_start, HasSubstr("tester: " + file_ + ":1: they do not fit\n"));
}

TEST_F(SettingsTest, TheManualPageHasEveryOptionAndItsVariable) {
  CaptureStdout();
  EXPECT_EQ(Parse({"--man-page"}), kDone);
  const std::string page = GetCapturedStdout();
  for (const char* part : {".TH TESTER 8 \"\" \"tester 1\"\n.SH NAME\ntester \\- tests\n",
                           "\\fB\\-\\-size\\fR \\fIUINT\\fR", "Environment: TESTER_SIZE or OLD_SIZE.\n",
                           "\\fB\\-\\-config\\fR", ".I /etc/lockstep/f.conf\n", ".SH EXIT STATUS\n"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_EQ(page.find("TESTER_CONFIG.\n"), std::string::npos) << "it is no key";
}

}  // namespace
}  // namespace lockstep::settings
