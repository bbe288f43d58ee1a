// Finds work that nearly no other rank does: a rank runs more kernels in a step than its peers. Examples are
// a replica with one microbatch more, and a check that only one rank makes twice.
//
// Ranks that differ in another way have no extra work. The number on which two thirds of a rank's peers
// agree, step by step, is the usual number. A rank has extra work under three conditions. Its additional
// kernels are more of the same kernels. They account for the difference in its number of kernels. And it
// hardly ever runs fewer. Read-only after construction, so any thread may use it.
#ifndef LOCKSTEP_ANALYSIS_COMPARE_EXTRA_WORK_H_
#define LOCKSTEP_ANALYSIS_COMPARE_EXTRA_WORK_H_

#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analysis/prepare/stages.h"
#include "analysis/replay/graph.h"

namespace lockstep::analysis {

class ExtraWork {
 public:
  // `signatures`: by unit, from signatures.h. `steps`: number of used steps. `layout`: if null or without
  // stages, all ranks are peers. Keeps no reference to any argument.
  ExtraWork(const Graph& graph, std::span<const uint64_t> signatures, size_t steps, const Layout* layout);

  // The number of a signature that the rank's peers run in that step, if the rank runs more and has
  // extra work.
  std::optional<uint32_t> UsualOf(uint32_t rank_index, size_t step, uint64_t signature) const {
    const auto found = usual_.find({rank_index, static_cast<uint32_t>(step), signature});
    return found == usual_.end() ? std::nullopt : std::optional(found->second);
  }
  bool empty() const { return usual_.empty(); }

 private:
  using Key = std::tuple<uint32_t, uint32_t, uint64_t>;  // rank index, step, signature
  absl::flat_hash_map<Key, uint32_t> usual_;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_COMPARE_EXTRA_WORK_H_
