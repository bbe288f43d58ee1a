// Runs the completion scripts in the shells for which they are made, with the built program.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "cli/common/program_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

class ShellsTest : public ProgramTest {
 protected:
  ShellsTest() {
    fs::create_directories(folder_ + "/captures of today/one/records");
    fs::create_directories(folder_ + "/lockstep-job-1/records");
    std::ofstream(folder_ + "/lockstep-job-1/records/manifest.json") << "{}";
    std::ofstream(folder_ + "/trace.json") << "{}";
    fs::create_directories(folder_ + "/state/lockstep/captures/20260301-120000-0a1b2c");
    fs::create_symlink(LOCKSTEP_PROGRAM, folder_ + "/lockstep");
    EXPECT_EQ(Run("for s in bash zsh fish; do lockstep completion $s > script.$s; done").code, 0);
  }
  bool Has(const std::string& shell) const { return Run("command -v " + shell).code == 0; }

  // Returns bash's completions of the last of `words`, one per line.
  std::string InBash(const std::string& words) const {
    const Result result =
        Run("bash -c 'source ./script.bash; COMP_WORDS=(" + words +
            "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _lockstep; [ ${#COMPREPLY[@]} = 0 ] || "
            "printf \"%s\\n\" \"${COMPREPLY[@]}\"'");
    EXPECT_EQ(result.code, 0) << words;
    EXPECT_THAT(result.err, IsEmpty()) << words;
    return result.out;
  }
};

TEST_F(ShellsTest, BashCompletesCommandsOptionsAndValues) {
  EXPECT_EQ(InBash("./lockstep tr"), "trace\n");
  EXPECT_EQ(InBash("./lockstep trace --via \"\""), "auto\ncupti\nkineto\n");
  EXPECT_EQ(InBash("./lockstep trace --via ku"), "");
  EXPECT_EQ(InBash("./lockstep trace --start-on-s"), "--start-on-step\n");
  EXPECT_EQ(InBash("./lockstep completion z"), "zsh\n");
  EXPECT_EQ(InBash("./lockstep ops x --sort-by self_dev"),
            "self_device_ns\nself_device_fraction\nself_device_memory_bytes\n");
}

TEST_F(ShellsTest, BashReplacesOnlyThePartAfterTheEqualsSign) {
  EXPECT_EQ(InBash("./lockstep trace --via = k"), "kineto\n");
  EXPECT_EQ(InBash("./lockstep trace --via ="), "auto\ncupti\nkineto\n");
  EXPECT_EQ(InBash("./lockstep kernels x --where regi"), "registers=\n");
}

// bash splits "1000:train" into three words.
TEST_F(ShellsTest, BashReplacesOnlyThePartAfterAColon) {
  fs::create_directories(folder_ + "/1000:train-1/records");
  std::ofstream(folder_ + "/a:trace.json") << "{}";
  EXPECT_EQ(InBash("./lockstep report 1000 : t"), "train-1\n");
  EXPECT_EQ(InBash("./lockstep report 1000 :"), "train-1\n");
  EXPECT_EQ(InBash("./lockstep report 1000"), "1000:train-1\n");
  EXPECT_EQ(InBash("./lockstep report 1000:t"), "1000:train-1\n") << "a shell whose words have colons";
  EXPECT_EQ(InBash("./lockstep analyze a : tr"), "trace.json\n");
  EXPECT_EQ(InBash("./lockstep report a b : c"), "");
}

TEST_F(ShellsTest, BashCompletesCapturesElseFiles) {
  EXPECT_EQ(InBash("./lockstep report \"\""), "20260301-120000-0a1b2c\nlockstep-job-1\n");
  EXPECT_EQ(InBash("./lockstep report ./lo"), "./lockstep-job-1\n");
  EXPECT_EQ(InBash("./lockstep analyze tra"), "trace.json\n");
  EXPECT_EQ(InBash("./lockstep export cap"), "captures of today\n") << "one word";
}

TEST_F(ShellsTest, BashCompletesTheUsersCommand) {
  EXPECT_THAT(InBash("./lockstep run -- prin"), HasSubstr("printf\n"));
  EXPECT_EQ(InBash("./lockstep run -- cat trace.j"), "trace.json\n");
}

TEST_F(ShellsTest, CompletingJobsIsSilentWithoutADaemon) {
  const Result none = Run("lockstep complete -- trace --job ''");
  EXPECT_EQ(none.code, 0);
  EXPECT_THAT(none.out, IsEmpty());
  EXPECT_THAT(none.err, IsEmpty());
}

TEST_F(ShellsTest, CompletingJobsDoesNotWaitForAStoppedDaemon) {
  ASSERT_EQ(Run("lockstep run -- true").code, 0);
  ASSERT_EQ(Daemons().size(), 1u);
  ::kill(Daemons()[0], SIGSTOP);
  const auto begin = std::chrono::steady_clock::now();
  const Result result = Run("lockstep complete -- trace --job ''");
  const auto length = std::chrono::steady_clock::now() - begin;
  ::kill(Daemons()[0], SIGCONT);
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_LT(length, std::chrono::seconds(4)) << "`lockstep status` waits for 5 s";
}

TEST_F(ShellsTest, FishCompletesValues) {
  if (!Has("fish")) GTEST_SKIP() << "needs fish: apt-get install fish";
  const Result result = Run(
      "PATH=.:$PATH fish --no-config -c 'source script.fish; complete -C \"lockstep trace --via \"; complete "
      "-C \"lockstep tr\"'");
  EXPECT_THAT(result.out, HasSubstr("kineto"));
  EXPECT_THAT(result.out, HasSubstr("trace\tCapture a running job"));
}

TEST_F(ShellsTest, ZshAcceptsTheScript) {
  if (!Has("zsh")) GTEST_SKIP() << "needs zsh: apt-get install zsh";
  const Result result = Run("zsh -n script.zsh");
  EXPECT_EQ(result.code, 0) << result.err;
}

}  // namespace
}  // namespace lockstep::cli
