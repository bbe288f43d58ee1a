#include "formats/kineto/event_splitter.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace lockstep::formats {
namespace {

// A text with the readable bytes after it that FindCut requires.
class Padded {
 public:
  explicit Padded(const std::string& text)
      : size_(text.size()), bytes_(text + std::string(kScanPadding, '}')) {}
  std::string_view view() const { return std::string_view(bytes_).substr(0, size_); }

 private:
  size_t size_;
  std::string bytes_;
};

Cut Find(const std::string& text, MoreInput more = MoreInput::kFollows) {
  return FindCut(Padded(text).view(), more);
}

TEST(EventSplitter, CutsAfterTheLastEventKnownToEnd) {
  EXPECT_EQ(Find(R"({"a":1}, {"b":2}, {"c")").end, 16u);
  EXPECT_EQ(Find(R"({"a":1}, {"b":2})").end, 7u) << "the text after the second is unknown";
  EXPECT_EQ(Find(R"({"a":1}, {"b":2})", MoreInput::kEnds).end, 16u);
  EXPECT_EQ(Find(R"({"a":1)").end, 0u);
  EXPECT_EQ(Find("").end, 0u);
}

TEST(EventSplitter, FindsTheEndOfTheListAndReadsNoFurther) {
  const std::string text = "{\"a\": [1, [2]]}\n  ], \"traceName\": \"x\", \"b\": {\"c\": {}}, {";
  const Cut cut = Find(text);
  EXPECT_EQ(cut.end, 15u);
  ASSERT_TRUE(cut.list_end.has_value());
  EXPECT_EQ(*cut.list_end, text.find("], \"traceName"));
}

TEST(EventSplitter, AnEmptyListEndsAtOnce) {
  const Cut cut = Find("  ]}");
  EXPECT_EQ(cut.end, 0u);
  EXPECT_EQ(cut.list_end, 2u);
}

TEST(EventSplitter, IgnoresBracketsAndQuotesInsideStrings) {
  const std::string first = R"({"name": "void f<{[>(\"]},{\")\\", "x": "\\\\"})";
  EXPECT_EQ(Find(first + R"(, {"name": "b")").end, first.size());
}

TEST(EventSplitter, TracksBackslashesAcrossWordBoundaries) {
  for (size_t pad = 0; pad < 140; ++pad) {
    for (size_t slashes = 0; slashes < 6; ++slashes) {
      // After an even number of backslashes, the quote ends the string.
      const std::string tail = slashes % 2 == 0 ? "\"}" : "\"}, {\"}";
      const std::string event = "{\"n\":\"" + std::string(pad, 'x') + std::string(slashes, '\\') + tail;
      EXPECT_EQ(Find(event + ", {\"ph\":").end, event.size()) << pad << " " << slashes;
    }
  }
}

TEST(EventSplitter, FindsTheEndAfterAVeryLongEvent) {
  std::string nested = "{\"args\": {\"x\": ";
  for (int i = 0; i < 20000; ++i) nested += "[1, {\"y\": 2}, [3]],";
  const std::string text = "{\"a\": 1}, " + nested;
  EXPECT_EQ(Find(text).end, 8u);
}

TEST(EventSplitter, AnUnbalancedBraceDoesNotEndTheList) {
  const Cut cut = Find("{\"a\": 1}, {\"a\": 1}, \"b\": 2}}, {\"c\": 3}, {");
  EXPECT_FALSE(cut.list_end.has_value());
  EXPECT_EQ(cut.end, 8u) << "the text after the second is not valid in a list";
}

TEST(EventSplitter, AMissingQuoteDoesNotSplitAnEvent) {
  const std::string good = "{\"ph\": \"X\", \"name\": \"f(){}, {g\"}, ";
  const std::string bad = "{\"ph\": X\", \"name\": \"f(){}, {g\"}, ";
  const Cut cut = Find(good + bad + good + good);
  EXPECT_LE(cut.end, good.size());
}

TEST(EventSplitter, SingleEventsEndWhereTheirBraceCloses) {
  const std::string text = R"(x{"a": "}\"}", "b": [{}]} , {"c")";
  EXPECT_EQ(FindEventEnd(text, 1), text.find(" ,"));
  EXPECT_EQ(FindEventEnd(text, text.rfind('{')), std::nullopt);
}

TEST(EventSplitter, FindsTheNextEventAndNotItsArguments) {
  const std::string text = R"(X", "args": {"name": "a"}}, {"x": 1}, { "ph" : "X"})";
  EXPECT_EQ(FindEventStart(text, 0), text.find("{ \"ph\""));
  EXPECT_EQ(FindEventStart("no braces", 0), std::nullopt);
  EXPECT_EQ(FindEventStart("{\"ph", 0), std::nullopt);
}

bool FitsBehindAnElement(const std::string& text, size_t at) {
  const size_t next = text.find_first_not_of(' ', at);
  if (next == std::string::npos) return false;
  if (text[next] == ']') return true;
  const size_t after = text.find_first_not_of(' ', next + 1);
  return text[next] == ',' && after != std::string::npos && (text[after] == '{' || text[after] == ']');
}

TEST(EventSplitter, AgreesWithACharacterwiseScanOfRandomText) {
  std::mt19937 random(7);
  const std::string alphabet = "{}[]\",\\ :a{}\"";
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    const size_t length = random() % 300;
    for (size_t i = 0; i < length; ++i) text += alphabet[random() % alphabet.size()];
    // Expected: the last '}' that returns to the level of the list, with text after it that may follow an
    // element.
    size_t expected = 0;
    int depth = 0;
    bool inside = false;
    bool escaped = false;
    for (size_t i = 0; i < text.size() && depth >= 0; ++i) {
      const char c = text[i];
      const bool quote = c == '"' && !escaped;
      escaped = c == '\\' && !escaped;
      if (quote) inside = !inside;
      if (inside || quote) continue;
      if (c == '{' || c == '[') {
        const bool empty_pair = i + 1 < text.size() && (text[i + 1] == '}' || text[i + 1] == ']');
        if (empty_pair) {
          ++i;
          escaped = false;
        } else {
          ++depth;
        }
      } else if (c == '}' || c == ']') {
        if (--depth == 0 && c == '}' && FitsBehindAnElement(text, i + 1)) expected = i + 1;
      }
    }
    // The scanner drops an empty object only if both brackets are in one word. An empty object across two
    // words may count as the end of an event.
    const size_t got = Find(text).end;
    if (got != expected) {
      ASSERT_GE(got, 2u) << text;
      ASSERT_EQ(text.substr(got - 2, 2), "{}") << text;
      ASSERT_EQ((got - 1) % 64, 0u) << text;
    }
  }
}

}  // namespace
}  // namespace lockstep::formats
