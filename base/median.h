// Medians and means of few or many values. Pure functions, any thread.
#ifndef LOCKSTEP_COMMON_BASE_MEDIAN_H_
#define LOCKSTEP_COMMON_BASE_MEDIAN_H_

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

namespace lockstep {

// Of an even number the mean of the two in the middle. Reorders `values`; T() for none.
template <typename T>
T MedianInPlace(std::span<T> values) {
  // So few are sorted faster in place than partitioned.
  constexpr size_t kFew = 24;
  if (values.empty()) return T();
  const size_t k = values.size() / 2;
  if (values.size() <= kFew) {
    for (size_t i = 1; i < values.size(); ++i) {
      const T value = values[i];
      size_t j = i;
      for (; j > 0 && value < values[j - 1]; --j) values[j] = values[j - 1];
      values[j] = value;
    }
    return values.size() % 2 == 1 ? values[k] : values[k - 1] + (values[k] - values[k - 1]) / 2;
  }
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(k), values.end());
  if (values.size() % 2 == 1) return values[k];
  const T below = *std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(k));
  return below + (values[k] - below) / 2;
}

inline double Median(std::vector<double> values) { return MedianInPlace(std::span<double>(values)); }

// One of the values: of an even number the upper one in the middle. Reorders; there must be some.
inline double UpperMedianInPlace(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The median of a sorted list, which must not be empty.
inline double SortedMedian(const std::vector<double>& sorted) {
  const size_t n = sorted.size();
  return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

// The same without one element of that value; there must be two or more.
inline double SortedMedianWithout(const std::vector<double>& sorted, double value) {
  const size_t n = sorted.size() - 1;
  const auto skip =
      static_cast<size_t>(std::lower_bound(sorted.begin(), sorted.end(), value) - sorted.begin());
  const auto at = [&](size_t i) { return sorted[i < skip ? i : i + 1]; };
  return n % 2 == 1 ? at(n / 2) : (at(n / 2 - 1) + at(n / 2)) / 2;
}

// 0 for none.
inline double Mean(std::span<const double> values) {
  return values.empty()
             ? 0
             : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace lockstep

#endif  // LOCKSTEP_COMMON_BASE_MEDIAN_H_
