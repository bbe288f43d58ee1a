#include "base/settings/duration.h"

#include <gtest/gtest.h>

namespace lockstep::settings {
namespace {

TEST(Duration, IsANumberWithItsUnit) {
  EXPECT_EQ(*ParseDuration("10s"), Nanos::Seconds(10));
  EXPECT_EQ(*ParseDuration("1.5s"), Nanos::Millis(1500));
  EXPECT_EQ(*ParseDuration("250ms"), Nanos::Millis(250));
  EXPECT_EQ(*ParseDuration("2m"), Nanos::Seconds(120));
  EXPECT_EQ(*ParseDuration("12h"), Nanos::Seconds(12 * 3600));
  EXPECT_EQ(*ParseDuration("30d"), Nanos::Seconds(30 * 86400));
  EXPECT_EQ(*ParseDuration("0"), Nanos());
  for (const char* bad : {"", "10", "s", "-1s", "10 s", "1w", "1e3s", "999999999d"})
    EXPECT_FALSE(ParseDuration(bad).ok()) << bad;
}

}  // namespace
}  // namespace lockstep::settings
