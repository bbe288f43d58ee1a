// What an operator needs at least: floating point operations (a multiply-add is two) and bytes into and out
// of the device's memory, by its shapes and types alone. Kernels may do more. The rules with their
// arithmetic: docs/views.md, section layers.
#ifndef LOCKSTEP_AGGREGATOR_VIEWS_OPERATOR_COST_H_
#define LOCKSTEP_AGGREGATOR_VIEWS_OPERATOR_COST_H_

#include <cstdint>
#include <optional>

#include "views/host/operator_call.h"

namespace lockstep::views {

// nullopt: shapes, types or values that it takes are not known, or there is no rule. Never a guess.
struct OperatorCost {
  std::optional<int64_t> flop;
  std::optional<int64_t> bytes;
  bool known() const { return flop || bytes; }
};

OperatorCost CostOf(const OperatorCall& call);

// The name without where it is from: "conv2d" of "aten::conv2d", "torch.nn.functional.conv2d",
// "aten::conv2d_".
std::string_view BareName(std::string_view operator_name);

}  // namespace lockstep::views

#endif  // LOCKSTEP_AGGREGATOR_VIEWS_OPERATOR_COST_H_
