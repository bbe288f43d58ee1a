#include "capture/model/compact.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"

namespace lockstep::capture {
namespace {

// The details that differ most between kernels.
struct HashOfDetail {
  using is_transparent = void;
  const std::vector<KernelDetail>& rows;

  size_t operator()(const KernelDetail& d) const {
    return absl::HashOf(d.grid[0], d.grid[1], d.grid[2], d.block[0], d.dynamic_shared_bytes, d.graph_node);
  }
  size_t operator()(uint32_t row) const { return (*this)(rows[row]); }
};

struct EqualDetail {
  using is_transparent = void;
  const std::vector<KernelDetail>& rows;

  const KernelDetail& Of(const KernelDetail& d) const { return d; }
  const KernelDetail& Of(uint32_t row) const { return rows[row]; }
  template <typename A, typename B>
  bool operator()(const A& a, const B& b) const {
    return Of(a) == Of(b);
  }
};

}  // namespace

void ShareDetails(std::vector<DeviceActivity>& activities, std::vector<KernelDetail>& rows) {
  std::vector<KernelDetail> kept;
  absl::flat_hash_set<uint32_t, HashOfDetail, EqualDetail> known(0, HashOfDetail{kept}, EqualDetail{kept});
  for (DeviceActivity& a : activities) {
    if (a.kind != ActivityKind::kKernel || a.detail >= rows.size()) continue;
    const KernelDetail& detail = rows[a.detail];
    const auto found = known.find(detail);
    const auto place = static_cast<uint32_t>(found != known.end() ? *found : kept.size());
    if (found == known.end()) {
      kept.push_back(detail);
      known.insert(place);
    }
    // The page of a row that is on a disk becomes memory if it is written.
    if (a.detail != place) a.detail = place;
  }
  rows = std::move(kept);
}

void Compact(RankData& rank) {
  ShareDetails(rank.activities, rank.kernel_details);
  rank.kernel_details.shrink_to_fit();
  rank.activities.shrink_to_fit();
  rank.api_calls.shrink_to_fit();
  rank.collectives.shrink_to_fit();
  rank.syncs.shrink_to_fit();
  rank.event_records.shrink_to_fit();
  rank.ranges.shrink_to_fit();
}

}  // namespace lockstep::capture
