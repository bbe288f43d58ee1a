#include "sim/fleet/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::sim {
namespace {

using ::testing::HasSubstr;

struct Parsed {
  int code;
  std::string error;
  FleetOptions options;
};

Parsed Parse(std::vector<std::string> words) {
  words.insert(words.begin(), "lockstep-sim-fleet");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  Parsed parsed;
  ::testing::internal::CaptureStderr();
  parsed.code = ParseFleetOptions(static_cast<int>(argv.size()), argv.data(), &parsed.options);
  parsed.error = ::testing::internal::GetCapturedStderr();
  return parsed;
}

TEST(FleetOptionsTest, AcceptsASocketAndALoopbackPort) {
  EXPECT_EQ(Parse({"--aggregator", "unix:/tmp/a"}).code, -1);
  EXPECT_EQ(Parse({"--aggregator", "127.0.0.1:7077"}).code, -1);
  EXPECT_EQ(Parse({"--aggregator", "[::1]:7077"}).code, -1);
}

TEST(FleetOptionsTest, RefusesAnotherMachineUnlessItIsAllowed) {
  const Parsed refused = Parse({"--aggregator", "10.0.0.7:7077"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.error, HasSubstr("--other-machines"));
  // Only the address decides, not a name that looks like one of this machine.
  EXPECT_EQ(Parse({"--aggregator", "127.example.org:7077"}).code, 2);
  EXPECT_EQ(Parse({"--aggregator", "10.0.0.7:7077", "--other-machines"}).code, -1);
}

TEST(FleetOptionsTest, RefusesAbsurdSizesAndNamesTheLimit) {
  const std::vector<std::string> base = {"--aggregator", "unix:/tmp/a"};
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"--daemons", "0"},
                                             {"--daemons", "1000000"},
                                             {"--daemons", "4096", "--ranks-per-daemon", "64"},
                                             {"--daemons", "1024", "--rows", "1000000"},
                                             {"--rows", "10"},
                                             {"--slow-rank", "8"},
                                             {"--slow-by", "0"},
                                             {"--leave", "8"},
                                             {"--clock-pause", "0ms"},
                                             {"--threads", "1000"}}) {
    std::vector<std::string> words = base;
    words.insert(words.end(), more.begin(), more.end());
    const Parsed refused = Parse(words);
    EXPECT_EQ(refused.code, 2) << more[0] << " " << more[1];
    EXPECT_THAT(refused.error, ::testing::Not(::testing::IsEmpty()));
  }
}

}  // namespace
}  // namespace lockstep::sim
