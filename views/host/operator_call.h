// A call of an operator, as its frame describes it: shapes, types and values of its arguments.
#ifndef LOCKSTEP_VIEWS_HOST_OPERATOR_CALL_H_
#define LOCKSTEP_VIEWS_HOST_OPERATOR_CALL_H_

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
  Shape shape;              // of a tensor; no dimensions: one number
  std::string_view type;    // of its elements, in the source's spelling
  int element_bytes = 0;    // 0: unknown
  std::vector<Shape> list;  // of a list of tensors, if the source has their shapes
  std::string value;        // of an argument that is not a tensor; empty: unknown
};

struct OperatorCall {
  std::string_view name;
  std::vector<Argument> arguments;
  std::optional<Shape> output;           // of the first result, if the backward pass gives it
  const OperatorCall* around = nullptr;  // the operator that called it; outlives this call

  const Argument* Tensor(size_t place) const;
};

// Returns the arguments in `detail`. Texts point into `strings`. Damaged lists give no arguments.
std::vector<Argument> ArgumentsOf(const capture::FrameDetail& detail, const capture::StringTable& strings);

// Returns "float[64,3,7,7];float[64]", then values as "stride=[2, 2]". Empty: no argument is known.
std::string Describe(const std::vector<Argument>& arguments);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_HOST_OPERATOR_CALL_H_
