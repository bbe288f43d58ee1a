// Medians and means. All are pure functions, which any thread may call.
#ifndef LOCKSTEP_BASE_MEDIAN_H_
#define LOCKSTEP_BASE_MEDIAN_H_

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

namespace lockstep {

// Returns the mean of the two middle values if their number is even. It reorders `values`, and returns T()
// for none.
template <typename T>
T MedianInPlace(std::span<T> values) {
  // Insertion sort is faster than partitioning up to this number.
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

// Returns one of the values: the upper middle one if their number is even. It reorders `values`, which must
// not be empty.
inline double UpperMedianInPlace(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Returns the median of a sorted list, which must not be empty.
inline double SortedMedian(const std::vector<double>& sorted) {
  const size_t n = sorted.size();
  return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

// Returns the median without one element of that value. The list must have at least two elements.
inline double SortedMedianWithout(const std::vector<double>& sorted, double value) {
  const size_t n = sorted.size() - 1;
  const auto skip =
      static_cast<size_t>(std::lower_bound(sorted.begin(), sorted.end(), value) - sorted.begin());
  const auto at = [&](size_t i) { return sorted[i < skip ? i : i + 1]; };
  return n % 2 == 1 ? at(n / 2) : (at(n / 2 - 1) + at(n / 2)) / 2;
}

// Returns 0 for an empty list.
inline double Mean(std::span<const double> values) {
  return values.empty()
             ? 0
             : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_MEDIAN_H_
