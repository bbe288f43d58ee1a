// Numbers for what units do. Units of one signature do the same on any rank and in any step, so they can be
// compared.
#ifndef LOCKSTEP_ANALYSIS_COMPARE_SIGNATURES_H_
#define LOCKSTEP_ANALYSIS_COMPARE_SIGNATURES_H_

#include <cstdint>
#include <vector>

#include "analysis/replay/graph.h"

namespace lockstep::analysis {

// Returns the signatures by unit. A kernel is its name with its grid and block, a copy its bytes and
// direction. A collective is its operation, bytes and group size. A host call is its name and the work that
// it launches, so "the launch of an attention kernel" is a signature. Pure; any thread.
std::vector<uint64_t> NameSignatures(const Graph& graph, const GraphInput& input);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_COMPARE_SIGNATURES_H_
