#include "daemon/kineto/kineto_config.h"

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/v1/common.pb.h"
#include "wire/ring/handshake.h"

namespace lockstep::daemon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

KinetoTraceRequest Request() {
  KinetoTraceRequest request;
  request.session = "20260301-120000-0a1b2c";
  request.window = {HostTime(1'790'000'015'000'400'000), HostTime(1'790'000'017'000'400'000)};
  request.activities = ring::kDefaultActivities;
  return request;
}

TEST(KinetoConfigTest, RequestsTheWindowInWholeMilliseconds) {
  const auto config = MakeKinetoConfig(Request());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(*config, HasSubstr("ACTIVITIES_LOG_FILE=/tmp/lockstep_20260301-120000-0a1b2c.json\n"));
  EXPECT_THAT(*config, HasSubstr("PROFILE_START_TIME=1790000015000\n"));
  EXPECT_THAT(*config, HasSubstr("ACTIVITIES_DURATION_MSECS=2001\n"));
  EXPECT_THAT(*config, HasSubstr("ACTIVITIES_WARMUP_PERIOD_SECS=5\n"));
  EXPECT_THAT(*config, HasSubstr("REQUEST_GROUP_TRACE_ID=20260301-120000-0a1b2c\n"));
}

TEST(KinetoConfigTest, RequestsIterations) {
  KinetoTraceRequest request = Request();
  request.window = {};
  request.iterations = KinetoIterations{.multiple = 100, .count = 5};
  const auto common = MakeKinetoConfig(request);
  ASSERT_TRUE(common.ok()) << common.status();
  EXPECT_THAT(
      *common,
      HasSubstr("PROFILE_START_ITERATION=0\nPROFILE_START_ITERATION_ROUNDUP=100\nACTIVITIES_ITERATIONS=5\n"));
  EXPECT_THAT(*common, HasSubstr("ACTIVITIES_DURATION_MSECS=0\n"))
      << "a job without iterations records nothing";
  EXPECT_THAT(*common, Not(HasSubstr("PROFILE_START_TIME")));
  request.iterations = KinetoIterations{.first = 5000, .count = 3};
  const std::string from = *MakeKinetoConfig(request);
  EXPECT_THAT(from, HasSubstr("PROFILE_START_ITERATION=5000\nACTIVITIES_ITERATIONS=3\n"));
  EXPECT_THAT(from, Not(HasSubstr("ROUNDUP")));
  for (const KinetoIterations wrong : {KinetoIterations{.count = 0}, KinetoIterations{.first = 1ull << 31},
                                       KinetoIterations{.count = 1ull << 40}}) {
    request.iterations = wrong;
    EXPECT_FALSE(MakeKinetoConfig(request).ok());
  }
}

// libkineto drops the whole request if one line has two '='.
TEST(KinetoConfigTest, EveryLineIsOneKeyAndOneValue) {
  KinetoTraceRequest request = Request();
  request.framework = 15;
  request.activities |= ring::kActivityMemory;
  const std::string config = *MakeKinetoConfig(request);
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(config, '\n', absl::SkipEmpty()))) {
    EXPECT_EQ(std::count(line.begin(), line.end(), '='), 1) << line;
    EXPECT_THAT(line, Not(HasSubstr("#")));
  }
}

TEST(KinetoConfigTest, NamesOnlyTheRequestedActivities) {
  KinetoTraceRequest request = Request();
  EXPECT_THAT(
      *MakeKinetoConfig(request),
      HasSubstr(
          "ACTIVITY_TYPES=kernel,gpu_memcpy,gpu_memset,cuda_runtime,cuda_driver,cuda_sync,user_annotation,"
          "gpu_user_annotation,cpu_op,overhead,external_correlation\n"));
  request.activities = ring::kActivityKernel;
  const std::string least = *MakeKinetoConfig(request);
  EXPECT_THAT(least, HasSubstr("ACTIVITY_TYPES=kernel,overhead,external_correlation\n"));
  EXPECT_THAT(least, Not(HasSubstr("PROFILE_WITH")));
  request.framework = v1::FRAMEWORK_PYTHON | v1::FRAMEWORK_SHAPES;
  const std::string more = *MakeKinetoConfig(request);
  EXPECT_THAT(more, HasSubstr("ACTIVITY_TYPES=kernel,cpu_op,python_function,overhead"));
  EXPECT_THAT(more, HasSubstr("PROFILE_WITH_STACK=true\n"));
  EXPECT_THAT(more, HasSubstr("PROFILE_REPORT_INPUT_SHAPES=true\n"));
  EXPECT_THAT(more, Not(HasSubstr("PROFILE_WITH_MODULES")));
}

TEST(KinetoConfigTest, RefusesTextWithLineBreaks) {
  for (const char* session : {"", "a b", "a\nVERBOSE_LOG_LEVEL=9", "../a", "a=b", "a#b"}) {
    KinetoTraceRequest request = Request();
    request.session = session;
    EXPECT_FALSE(MakeKinetoConfig(request).ok()) << session;
  }
  for (const char* folder : {"", "tmp", "/a b", "/a=b", "/a#b", "/a\n", "/tmp/../etc"}) {
    KinetoTraceRequest request = Request();
    request.folder = folder;
    const auto config = MakeKinetoConfig(request);
    ASSERT_FALSE(config.ok()) << folder;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr("KINETO_ONDEMAND_TRACE_DIR"));
  }
  KinetoTraceRequest empty = Request();
  empty.window.end = empty.window.start;
  EXPECT_FALSE(MakeKinetoConfig(empty).ok());
}

TEST(KinetoConfigTest, TheClientPutsItsPidIntoTheName) {
  EXPECT_EQ(KinetoFileName("s-1", 42), "lockstep_s-1_42.json");
  EXPECT_EQ(KinetoFallbackName(42), "libkineto_activities_42.json");
}

}  // namespace
}  // namespace lockstep::daemon
