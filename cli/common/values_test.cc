#include "cli/common/values.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/v1/common.pb.h"

namespace lockstep::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Ranks, AreRangesAndNumbers) {
  EXPECT_THAT(*ParseRanks("0-3,7"), ElementsAre(0, 1, 2, 3, 7));
  EXPECT_THAT(*ParseRanks("7,1-2,2"), ElementsAre(1, 2, 7));
  EXPECT_EQ(ParseRanks("0-1048575")->size(), 1u << 20);
  for (const char* bad :
       {"", "a", "3-1", "-1", "1-", "1,,2", "0-99999999999", "0-9999999", "0-1048575,0-1048575"})
    EXPECT_FALSE(ParseRanks(bad).ok()) << bad;
}

TEST(Activities, MapToBitsOfTheProtocol) {
  EXPECT_EQ(ParseActivities("kernel")->recorded, 1u);
  EXPECT_EQ(ParseActivities(kAllActivities)->recorded, 0xFFu);
  EXPECT_EQ(ParseActivities(kAllActivities)->framework, 0u);
  EXPECT_EQ(ParseActivities("kernel,memory")->recorded, 0x101u);
  EXPECT_EQ(ParseActivities("kernel,cpu_op,python")->recorded, 1u);
  EXPECT_EQ(ParseActivities("kernel,cpu_op,python")->framework,
            static_cast<uint32_t>(v1::FRAMEWORK_CPU_OP | v1::FRAMEWORK_PYTHON));
  EXPECT_EQ(ParseActivities("modules,shapes")->framework,
            static_cast<uint32_t>(v1::FRAMEWORK_MODULES | v1::FRAMEWORK_SHAPES));
  EXPECT_THAT(std::string(ParseActivities("kernel,pm_sampling").status().message()),
              HasSubstr("\"pm_sampling\""));
  EXPECT_EQ(ParseActivities("nccl-channels,nccl-proxy")->recorded, 0x600u);
}

TEST(StartAt, IsAnOffsetOrATime) {
  const JobTime now(1'000'000'000);
  EXPECT_EQ(*ParseStartAt("+500ms", now), now + Nanos::Millis(500));
  EXPECT_EQ(*ParseStartAt("1970-01-01T00:01:00Z", now), JobTime(60'000'000'000));
  EXPECT_EQ(*ParseStartAt("1970-01-01T00:01:00.5+01:00", now), JobTime(60'500'000'000 - 3'600'000'000'000));
  for (const char* bad : {"", "500ms", "tomorrow", "1970-01-01", "+"})
    EXPECT_FALSE(ParseStartAt(bad, now).ok()) << bad;
}

TEST(FormatDuration, ChoosesTheUnit) {
  EXPECT_EQ(FormatDuration(Nanos::Seconds(2)), "2 s");
  EXPECT_EQ(FormatDuration(Nanos::Millis(20)), "20 ms");
  EXPECT_EQ(FormatDuration(Nanos(1500)), "1.5 us");
}

}  // namespace
}  // namespace lockstep::cli
