#include "formats/common/decimal_time.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace lockstep::formats {
namespace {

TEST(DecimalTime, ConvertsMicrosecondsToNanosecondsExactly) {
  EXPECT_EQ(NanosFromMicrosText("0"), 0);
  EXPECT_EQ(NanosFromMicrosText("27"), 27000);
  EXPECT_EQ(NanosFromMicrosText("1694128201429795"), 1694128201429795000);
  EXPECT_EQ(NanosFromMicrosText("4458676522690.655"), 4458676522690655);
  EXPECT_EQ(NanosFromMicrosText("0.001"), 1);
  EXPECT_EQ(NanosFromMicrosText("4.96"), 4960);
  EXPECT_EQ(NanosFromMicrosText("1608034841850576.123"), 1608034841850576123);
}

TEST(DecimalTime, ReadsSignsExponentsBlanksAndQuotes) {
  EXPECT_EQ(NanosFromMicrosText("-3.5"), -3500);
  EXPECT_EQ(NanosFromMicrosText("1.694128201429795e+15"), 1694128201429795000);
  EXPECT_EQ(NanosFromMicrosText("1E3"), 1000000);
  EXPECT_EQ(NanosFromMicrosText("2.5e-3"), 3);  // two and a half ns, half away from zero
  EXPECT_EQ(NanosFromMicrosText(" 12 \n"), 12000);
  EXPECT_EQ(NanosFromMicrosText("\"12.5\""), 12500);
  EXPECT_EQ(NanosFromMicrosText("0e99999999999999"), 0);
}

TEST(DecimalTime, RoundsDigitsBelowANanosecond) {
  EXPECT_EQ(NanosFromMicrosText("92.80400000000001"), 92804);
  EXPECT_EQ(NanosFromMicrosText("92.80399999999999"), 92804);
  EXPECT_EQ(NanosFromMicrosText("0.0004"), 0);
  EXPECT_EQ(NanosFromMicrosText("0.0005"), 1);
  EXPECT_EQ(NanosFromMicrosText("-0.0005"), -1);
  EXPECT_EQ(NanosFromMicrosText("1.00000000000000000000000000000000000001"), 1000);
  EXPECT_EQ(NanosFromMicrosText("9e-300"), 0);
  EXPECT_EQ(NanosFromMicrosText("9e-4"), 1);
  EXPECT_EQ(NanosFromMicrosText("0.00000000000000000000000000000000000009"), 0);
}

TEST(DecimalTime, RefusesInvalidTimes) {
  for (const char* text :
       {"", "N/A", "NaN", "Infinity", "-", ".", "1e", "1.2.3", "12a", "\"\"", "null", "0x10", "--1", "1 2"}) {
    EXPECT_EQ(NanosFromMicrosText(text), std::nullopt) << text;
  }
}

TEST(DecimalTime, RefusesNumbersTooLargeForNanoseconds) {
  EXPECT_EQ(NanosFromMicrosText("9223372036854775.807"), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(NanosFromMicrosText("9223372036854775.808"), std::nullopt);
  EXPECT_EQ(NanosFromMicrosText("1e300"), std::nullopt);
  EXPECT_EQ(NanosFromMicrosText("99999999999999999999999999"), std::nullopt);
  EXPECT_EQ(NanosFromMicrosText(std::string(100000, '9')), std::nullopt);
  EXPECT_EQ(NanosFromMicrosText("1e" + std::string(1000, '9')), std::nullopt);
}

TEST(DecimalTime, RefusesFractionalCounts) {
  EXPECT_EQ(IntegerFromText("1711964646000000000"), 1711964646000000000);
  EXPECT_EQ(IntegerFromText("-7"), -7);
  EXPECT_EQ(IntegerFromText("3.0"), 3);
  EXPECT_EQ(IntegerFromText("3.5"), std::nullopt);
  EXPECT_EQ(IntegerFromText("\"41\""), 41);
  EXPECT_EQ(IntegerFromText("stream 15"), std::nullopt);
}

}  // namespace
}  // namespace lockstep::formats
