#include "cli/common/output_name.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/files/own_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
namespace fs = std::filesystem;

OutputTokens Tokens() {
  OutputTokens tokens;
  tokens.host = "n0";
  tokens.pid = "42";
  tokens.ranks = "0-7";
  tokens.job = "../evil/job";
  tokens.environment = [](const char* name) -> const char* {
    return std::string(name) == "USER" ? "me/../you" : nullptr;
  };
  return tokens;
}

TEST(OutputName, ReplacesTokens) {
  EXPECT_EQ(*ExpandOutputName("a-%h-%p-%r-%%", Tokens()), "a-n0-42-0-7-%");
  EXPECT_EQ(*ExpandOutputName("plain", Tokens()), "plain");
}

TEST(OutputName, ValuesOfTokensAddNoFolder) {
  EXPECT_EQ(*ExpandOutputName("x/%j", Tokens()), "x/_._evil_job");
  EXPECT_EQ(*ExpandOutputName("%q{USER}", Tokens()), "me_.._you");
}

TEST(OutputName, NamesUnknownTokensAndUnsetVariables) {
  EXPECT_THAT(std::string(ExpandOutputName("%z", Tokens()).status().message()), HasSubstr("%z"));
  EXPECT_THAT(std::string(ExpandOutputName("%", Tokens()).status().message()), HasSubstr("unknown token"));
  EXPECT_THAT(std::string(ExpandOutputName("%q{HOME}", Tokens()).status().message()),
              HasSubstr("HOME is not set"));
  EXPECT_THAT(std::string(ExpandOutputName("%qUSER", Tokens()).status().message()), HasSubstr("braces"));
}

TEST(OutputName, TheDefaultNamesJobAndTime) {
  EXPECT_THAT(DefaultOutputName("4711", 1'772'366'400), MatchesRegex("\\./lockstep-4711-[0-9]{8}-[0-9]{6}"));
  EXPECT_THAT(DefaultOutputName("a b/c", 0), HasSubstr("lockstep-a_b_c-"));
}

// A user's folder may contain a folder of captures, or a report.
TEST(OutputName, ForceReplacesWhatLockstepMadeAndNothingElse) {
  char pattern[] = "/tmp/lockstep-output-XXXXXX";
  const std::string folder = ::mkdtemp(pattern);
  EXPECT_TRUE(CheckOutput(folder + "/new", Overwrite::kNever).ok());
  EXPECT_THAT(std::string(CheckOutput(folder, Overwrite::kNever).message()), HasSubstr("--force"));
  EXPECT_TRUE(CheckOutput(folder, Overwrite::kForce).ok()) << "empty";
  std::ofstream(folder + "/thesis.tex") << "years of work";
  fs::create_directory(folder + "/records");
  std::ofstream(folder + "/report.json") << "{}";
  EXPECT_FALSE(CheckOutput(folder, Overwrite::kForce).ok());
  const std::string own = *MakeFolderBeside(folder + "/capture", OwnFolder::kCapture);
  EXPECT_FALSE(CheckOutput(own, Overwrite::kNever).ok());
  EXPECT_TRUE(CheckOutput(own, Overwrite::kForce).ok());
  EXPECT_FALSE(CheckOutput(folder + "/thesis.tex", Overwrite::kForce).ok());
  fs::remove_all(folder);
}

}  // namespace
}  // namespace lockstep::cli
