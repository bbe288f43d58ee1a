// Costs of the operators that multiply: matrix products, convolutions and attention, with their backward
// passes. Part of operator_cost.h.
#ifndef LOCKSTEP_VIEWS_HOST_MATRIX_COST_H_
#define LOCKSTEP_VIEWS_HOST_MATRIX_COST_H_

#include <optional>
#include <string_view>

#include "views/host/operator_cost.h"

namespace lockstep::views {

// `name` is bare. nullopt: the operator is not one of these. A cost without known figures: it is one of
// these, but its arguments are not known well enough.
std::optional<OperatorCost> MatrixCost(std::string_view name, const OperatorCall& call);

// Returns a value for each dimension that the operator slides over ("[2, 2]", or "2" for all), from the
// argument at that place or with that name. `input` is [N, C, …]. nullopt: unknown.
std::optional<Shape> SpatialValue(const OperatorCall& call, size_t place, std::string_view name,
                                  const Shape& input);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_HOST_MATRIX_COST_H_
