// Computes the least work of an operator: floating point operations (a multiply-add is two) and bytes to and
// from the device's memory. It uses only shapes, types and values of the arguments. Kernels may do more.
// docs/views/kernels.md, section layers, has the rules with their arithmetic.
#ifndef LOCKSTEP_VIEWS_HOST_OPERATOR_COST_H_
#define LOCKSTEP_VIEWS_HOST_OPERATOR_COST_H_

#include <cstdint>
#include <optional>

#include "views/host/operator_call.h"

namespace lockstep::views {

// nullopt: a needed shape, type or value is unknown, or the operator has no rule. Costs are never guessed.
struct OperatorCost {
  std::optional<int64_t> flop;
  std::optional<int64_t> bytes;
  bool known() const { return flop || bytes; }
};

OperatorCost CostOf(const OperatorCall& call);

// Returns the name without its origin: "conv2d" for "aten::conv2d", "torch.nn.functional.conv2d",
// "aten::conv2d_".
std::string_view BareName(std::string_view operator_name);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_HOST_OPERATOR_COST_H_
