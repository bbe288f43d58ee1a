#include "base/median.h"

#include <random>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

TEST(Median, AgreesWithSortingForEveryLength) {
  std::mt19937_64 random(4);
  for (size_t n = 1; n < 80; ++n) {
    std::vector<double> values;
    for (size_t i = 0; i < n; ++i) values.push_back(static_cast<double>(random() % 50));
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    const double expected = n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
    EXPECT_EQ(Median(values), expected);
    EXPECT_EQ(SortedMedian(sorted), expected);
    EXPECT_EQ(UpperMedianInPlace(values), sorted[n / 2]);
    if (n == 1) continue;
    const double left_out = sorted[random() % n];
    const double without = SortedMedianWithout(sorted, left_out);
    sorted.erase(std::find(sorted.begin(), sorted.end(), left_out));
    EXPECT_EQ(without, SortedMedian(sorted));
  }
}

TEST(Median, OfNoValuesIsEmpty) {
  EXPECT_EQ(Median({}), 0);
  EXPECT_EQ(Mean({}), 0);
}

}  // namespace
}  // namespace lockstep
