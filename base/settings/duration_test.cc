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
  EXPECT_EQ(ParseDuration("10").status().message(),
            "\"10\" is not a duration: write 10s, 500ms, 2m, 12h or 30d");
}

TEST(Duration, OfAFlagHasAUnit) {
  const auto parse = [](const std::string& text) { return ParseDuration(text, kFlagDuration); };
  EXPECT_EQ(*parse("2s"), Nanos::Seconds(2));
  EXPECT_EQ(*parse("500ms"), Nanos::Millis(500));
  EXPECT_EQ(*parse("1.5s"), Nanos::Millis(1500));
  EXPECT_EQ(*parse("20us"), Nanos::Micros(20));
  EXPECT_EQ(*parse("7ns"), Nanos(7));
  EXPECT_EQ(*parse("2m"), Nanos::Seconds(120));
  EXPECT_EQ(*parse("2min"), Nanos::Seconds(120));
  for (const char* bad :
       {"", "0", "2", "s", "-2s", "2 s", "2h", "1e9s", "..s", "99999999999999999999s", "2ss", "2mi"}) {
    const auto parsed = parse(bad);
    EXPECT_FALSE(parsed.ok()) << bad;
    EXPECT_NE(parsed.status().message().find("is not a duration: write it as 2s, 500ms or 1m"),
              std::string::npos);
  }
}

TEST(Duration, OfTheSimulationIsInSecondsWithoutAUnit) {
  const auto parse = [](const std::string& text) { return ParseDuration(text, kSimulationDuration); };
  EXPECT_EQ(*parse("20"), Nanos::Seconds(20));
  EXPECT_EQ(*parse("0.5"), Nanos::Millis(500));
  EXPECT_EQ(*parse("150ms"), Nanos::Millis(150));
  for (const char* bad : {"", "2m", "-1", "nan", "inf", "9999999999"}) EXPECT_FALSE(parse(bad).ok()) << bad;
}

}  // namespace
}  // namespace lockstep::settings
