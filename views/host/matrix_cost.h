// The operators that multiply: matrix products, convolutions and attention, with their ways back. For
// operator_cost.h.
#ifndef LOCKSTEP_AGGREGATOR_VIEWS_MATRIX_COST_H_
#define LOCKSTEP_AGGREGATOR_VIEWS_MATRIX_COST_H_

#include <optional>
#include <string_view>

#include "views/host/operator_cost.h"

namespace lockstep::views {

// `name` is bare. nullopt: the operator is none of these; a cost of which nothing is known: it is one, with
// too little said.
std::optional<OperatorCost> MatrixCost(std::string_view name, const OperatorCall& call);

// A value for each dimension that the operator slides over ("[2, 2]", or "2" for all), at that place or by
// that name. `input` is [N, C, …]. nullopt: it is not told.
std::optional<Shape> SpatialValue(const OperatorCall& call, size_t place, std::string_view name,
                                  const Shape& input);

}  // namespace lockstep::views

#endif  // LOCKSTEP_AGGREGATOR_VIEWS_MATRIX_COST_H_
