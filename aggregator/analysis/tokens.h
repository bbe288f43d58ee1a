// What a unit does, as a number: units of one token, on whichever rank and in whichever step, do the same and
// can be compared.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_TOKENS_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_TOKENS_H_

#include <cstdint>
#include <vector>

#include "analysis/replay/graph.h"

namespace lockstep::analysis {

// By unit. A kernel is its name with its grid and block, a copy its bytes and direction, a collective its
// operation, bytes and group size, a host call its name and what it launches: "the launch of an attention
// kernel" is a token. Pure; any thread.
std::vector<uint64_t> NameTokens(const Graph& graph, const GraphInput& input);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_TOKENS_H_
