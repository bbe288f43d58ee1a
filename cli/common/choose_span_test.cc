#include "cli/common/choose_span.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

using formats::SpanChoice;
using ::testing::HasSubstr;

TEST(ChooseSpan, ReadsANumberTheWordLastOrNothing) {
  EXPECT_EQ(ParseSpan("")->kind, SpanChoice::Kind::kLastOfAllRanks);
  EXPECT_EQ(ParseSpan("last")->kind, SpanChoice::Kind::kLast);
  ASSERT_EQ(ParseSpan("12")->kind, SpanChoice::Kind::kNumber);
  EXPECT_EQ(ParseSpan("12")->number, 12);
}

TEST(ChooseSpan, RefusesOtherTexts) {
  for (const char* text : {"first", "1..3", "2x", "99999999999"}) {
    EXPECT_THAT(std::string(ParseSpan(text).status().message()), HasSubstr("as in --span 2, or last"))
        << text;
  }
}

}  // namespace
}  // namespace lockstep::cli
