#include "base/settings/nearest_word.h"

#include <gtest/gtest.h>

namespace lockstep::settings {
namespace {

TEST(NearestWord, SuggestsTheClosestWord) {
  const std::vector<std::string> known = {"ring-bytes", "spool-bytes", "log", "log-level"};
  EXPECT_EQ(NearestWord("ring-byts", known), "ring-bytes");
  EXPECT_EQ(NearestWord("lgo-level", known), "log-level");
  EXPECT_EQ(NearestWord("ringbytes", known), "ring-bytes");
  EXPECT_EQ(NearestWord("temperature", known), "");
  EXPECT_EQ(NearestWord("", known), "");
}

TEST(NearestWord, DidYouMeanIsEmptyWithoutASimilarWord) {
  EXPECT_EQ(DidYouMean("reprot", {"trace", "report"}), "; did you mean report?");
  EXPECT_EQ(DidYouMean("frobnicate", {"trace", "report"}), "");
}

}  // namespace
}  // namespace lockstep::settings
