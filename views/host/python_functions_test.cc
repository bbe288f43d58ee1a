#include "views/host/python_functions.h"

#include <gtest/gtest.h>

namespace lockstep::views {
namespace {

capture::PythonFunction Function(std::string name, int64_t calls, int64_t self_us) {
  return {.name = std::move(name),
          .file = "train.py",
          .line = 3,
          .calls = calls,
          .primitive_calls = calls,
          .self = Nanos::Micros(self_us),
          .total = Nanos::Micros(2 * self_us)};
}

TEST(PythonFunctions, ComparesRanks) {
  const std::vector<capture::PythonProfile> profiles = {
      {.rank = RankId(0), .functions = {Function("load", 10, 100), Function("forward", 5, 900)}},
      {.rank = RankId(1), .functions = {Function("forward", 7, 1100), Function("load", 10, 3900)}},
      {.rank = RankId(2), .functions = {Function("only_here", 1, 50)}},
  };
  const auto rows = PythonFunctionsOf(profiles, PythonRows::kAllRanks);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].name, "load");
  EXPECT_EQ(rows[0].self, Nanos::Micros(2000));
  EXPECT_EQ(rows[0].least_self, Nanos::Micros(100));
  EXPECT_EQ(rows[0].most_self, Nanos::Micros(3900));
  EXPECT_EQ(rows[0].most_rank, RankId(1));
  EXPECT_EQ(rows[1].name, "forward");
  EXPECT_DOUBLE_EQ(rows[1].calls, 6);
  EXPECT_EQ(rows[1].total, Nanos::Micros(2000));
  EXPECT_EQ(rows[2].ranks, 1);

  const auto each = PythonFunctionsOf(profiles, PythonRows::kEachRank);
  ASSERT_EQ(each.size(), 5u);
  EXPECT_EQ(each[0].rank, RankId(1));
  EXPECT_EQ(each[0].self, Nanos::Micros(3900));
}

}  // namespace
}  // namespace lockstep::views
