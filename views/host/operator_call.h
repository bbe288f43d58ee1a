// A call of an operator as its frame tells it: shapes, types and values of its arguments.
#ifndef LOCKSTEP_AGGREGATOR_VIEWS_OPERATOR_CALL_H_
#define LOCKSTEP_AGGREGATOR_VIEWS_OPERATOR_CALL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::views {

using Shape = std::vector<int64_t>;

struct Argument {
  bool is_tensor = false;
  Shape shape;              // of a tensor; of no dimensions: one number
  std::string_view type;    // of its elements, as the source names it
  int element_bytes = 0;    // 0: unknown
  std::vector<Shape> list;  // of a list of tensors, where the source has their shapes
  std::string value;        // of what is no tensor; empty: not told
};

struct OperatorCall {
  std::string_view name;
  std::vector<Argument> arguments;
  std::optional<Shape> output;           // of the first result, where the backward pass tells it
  const OperatorCall* around = nullptr;  // the operator that called it; lives as long

  const Argument* Tensor(size_t place) const;
};

// Arguments as `detail` has them. Texts point into `strings`. Damaged lists give no arguments.
std::vector<Argument> ArgumentsOf(const store::FrameDetail& detail, const store::StringTable& strings);

// "float[64,3,7,7];float[64]", then values as "stride=[2, 2]"; empty: nothing is known.
std::string Describe(const std::vector<Argument>& arguments);

}  // namespace lockstep::views

#endif  // LOCKSTEP_AGGREGATOR_VIEWS_OPERATOR_CALL_H_
