// Arithmetic with sizes from traces. The result is unknown if an operand is unknown, or if it does not fit 64
// bits.
#ifndef LOCKSTEP_VIEWS_HOST_SHAPE_MATH_H_
#define LOCKSTEP_VIEWS_HOST_SHAPE_MATH_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "views/host/operator_call.h"

namespace lockstep::views {

class Count {
 public:
  Count(int64_t value) : value_(value) {}                 // NOLINT: numbers are counts
  Count(std::optional<int64_t> value) : value_(value) {}  // NOLINT
  static Count Unknown() { return Count(std::nullopt); }

  std::optional<int64_t> value() const { return value_; }

  friend Count operator*(Count a, Count b) {
    int64_t product = 0;
    if (!a.value_ || !b.value_ || __builtin_mul_overflow(*a.value_, *b.value_, &product)) return Unknown();
    return product;
  }
  friend Count operator+(Count a, Count b) {
    int64_t sum = 0;
    if (!a.value_ || !b.value_ || __builtin_add_overflow(*a.value_, *b.value_, &sum)) return Unknown();
    return sum;
  }
  // `b` must divide `a`.
  friend Count operator/(Count a, Count b) {
    if (!a.value_ || !b.value_ || *b.value_ == 0) return Unknown();
    return *a.value_ / *b.value_;
  }

 private:
  std::optional<int64_t> value_;
};

inline Count Elements(const Shape& shape) {
  Count product = 1;
  for (const int64_t size : shape) product = product * size;
  return product;
}

inline Count BytesOf(const Argument& tensor) {
  return tensor.element_bytes == 0 ? Count::Unknown() : Elements(tensor.shape) * tensor.element_bytes;
}

// Broadcasts two shapes like NumPy. nullopt: the shapes do not fit.
inline std::optional<Shape> Broadcast(const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_HOST_SHAPE_MATH_H_
