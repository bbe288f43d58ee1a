// Work that nearly all others do not do: a rank that runs more kernels in a step than its peers (a replica
// with one microbatch more, a check that only one rank makes twice).
//
// Nothing is claimed about ranks that differ in anything but the number of kernels that all run: what two
// thirds of a rank's peers agree on, step by step, is usual; a rank has a surplus when what it runs beyond
// that is more of the same kernels, is what its number of kernels differs by, and it hardly ever runs fewer.
// Read-only once built, any thread.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_SURPLUS_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_SURPLUS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analysis/prepare/stages.h"
#include "analysis/replay/graph.h"

namespace lockstep::analysis {

class Surplus {
 public:
  // `tokens`: by unit, tokens.h. `steps`: how many are used. `layout`: null, or without stages: all ranks are
  // peers. Nothing is kept of any but `graph` and `tokens` while it is built.
  Surplus(const Graph& graph, std::span<const uint64_t> tokens, size_t steps, const Layout* layout);

  // How many of a token the rank's peers run in that step, where the rank runs more and has a surplus.
  std::optional<uint32_t> UsualOf(uint32_t rank_index, size_t step, uint64_t token) const {
    const auto found = usual_.find({rank_index, static_cast<uint32_t>(step), token});
    return found == usual_.end() ? std::nullopt : std::optional(found->second);
  }
  bool empty() const { return usual_.empty(); }

 private:
  using Key = std::tuple<uint32_t, uint32_t, uint64_t>;  // rank index, step, token
  absl::flat_hash_map<Key, uint32_t> usual_;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_SURPLUS_H_
