#include "base/number_runs.h"

#include "gtest/gtest.h"

namespace lockstep {
namespace {

TEST(NumberRuns, WritesSortedRunsAndEachNumberOnce) {
  EXPECT_EQ(NumberRuns({7, 3, 1, 2, 0, 2, 9}, 2), "0-3, 7, 9");
  EXPECT_EQ(NumberRuns({-2, -1, 0}, 2), "-2-0");
  EXPECT_EQ(NumberRuns({4}, 2), "4");
  EXPECT_EQ(NumberRuns({}, 2), "");
}

TEST(NumberRuns, ListsShortRunsAsSingleNumbers) {
  EXPECT_EQ(NumberRuns({9, 10}, 2), "9-10");
  EXPECT_EQ(NumberRuns({9, 10}, 3), "9, 10");
  EXPECT_EQ(NumberRuns({9, 10, 12, 13, 14}, 3), "9, 10, 12-14");
}

}  // namespace
}  // namespace lockstep
