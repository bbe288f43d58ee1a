#include "base/json/json_out.h"

#include <simdjson.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/json/json_string.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

std::string Written(std::string_view text) {
  JsonOut out;
  out.Value(text);
  return out.Take();
}

TEST(JsonOut, TextsRoundTrip) {
  simdjson::dom::parser parser;
  for (const std::string_view text :
       {std::string_view("plain"), std::string_view("quote \" back \\ slash / tab \t line \n"),
        std::string_view("\x01\x1f\x7f"), std::string_view("R\xC3\xA9sum\xC3\xA9 \xF0\x9F\x98\x80"),
        std::string_view("nul \0 inside", 12)}) {
    const std::string json = Written(text);
    std::string_view back;
    ASSERT_EQ(parser.parse(json).get(back), simdjson::SUCCESS) << json;
    EXPECT_EQ(back, text);
  }
}

TEST(JsonOut, InvalidUtf8BecomesReplacementCharacters) {
  simdjson::dom::parser parser;
  std::mt19937 random(2);
  for (int trial = 0; trial < 2000; ++trial) {
    std::string text(random() % 20, ' ');
    for (char& c : text) c = static_cast<char>(random());
    const std::string json = Written(text);
    EXPECT_EQ(parser.parse(json).error(), simdjson::SUCCESS) << json;
  }
  EXPECT_EQ(Written("a\xFFz"), "\"a\xEF\xBF\xBDz\"\n");
  EXPECT_EQ(Written("\xED\xA0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"\n") << "surrogates are none";
}

TEST(JsonString, EscapesAndReplaces) {
  EXPECT_EQ(JsonQuoted("a\"b\\c\n\t\x01\x7F"), R"("a\"b\\c\n\t\u0001\u007f")");
  std::string out = "x";
  AppendJsonString("r\xC3\xA9\xFF", out, "?");
  EXPECT_EQ(out, "x\"r\xC3\xA9?\"");
}

TEST(JsonOut, NumbersRoundTripAndNonFiniteOnesAreNull) {
  simdjson::dom::parser parser;
  for (const double number :
       {0.1, 1e300, -1.0 / 3, 1'694'128'201'421'058'123.0, std::numeric_limits<double>::denorm_min()}) {
    JsonOut out;
    out.Value(number);
    double back = 0;
    ASSERT_EQ(parser.parse(out.Take()).get(back), simdjson::SUCCESS);
    EXPECT_EQ(back, number);
  }
  for (const double none : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    JsonOut out;
    out.Value(none);
    EXPECT_EQ(out.Take(), "null\n");
  }
  JsonOut out;
  out.Value(std::numeric_limits<int64_t>::min());
  EXPECT_EQ(out.Take(), "-9223372036854775808\n");
}

TEST(JsonOut, IndentsNestedContainersAndKeepsEmptyOnesShort) {
  JsonOut out;
  out.BeginObject();
  out.Key("a").BeginArray();
  out.EndArray();
  out.Key("b").BeginArray();
  out.Value(1);
  out.Value(std::optional<double>());
  out.EndArray();
  out.EndObject();
  EXPECT_EQ(out.Take(), "{\n  \"a\": [],\n  \"b\": [\n    1,\n    null\n  ]\n}\n");
}

}  // namespace
}  // namespace lockstep
