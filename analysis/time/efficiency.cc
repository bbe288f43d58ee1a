#include "analysis/time/efficiency.h"

#include <algorithm>

#include "capture/model/capture.h"

namespace lockstep::analysis {
namespace {

double Sum(std::span<const Nanos> lengths) {
  double sum = 0;
  for (Nanos n : lengths) sum += static_cast<double>(n.ns());
  return sum;
}

double Most(std::span<const Nanos> lengths) {
  return lengths.empty() ? 0 : static_cast<double>(std::max_element(lengths.begin(), lengths.end())->ns());
}

// The largest mean over the parts of the ranks. `part_of` has the part of each rank index, below `parts`.
double MostOfMeans(std::span<const Nanos> compute, const std::vector<uint32_t>& part_of, size_t parts) {
  std::vector<double> sum(parts, 0), count(parts, 0);
  for (size_t r = 0; r < compute.size(); ++r) {
    sum[part_of[r]] += static_cast<double>(compute[r].ns());
    ++count[part_of[r]];
  }
  double most = 0;
  for (size_t p = 0; p < parts; ++p) {
    if (count[p] > 0) most = std::max(most, sum[p] / count[p]);
  }
  return most;
}

}  // namespace

Efficiency EfficiencyOf(std::span<const Nanos> compute, std::span<const Nanos> active, Nanos elapsed) {
  const double sum = Sum(compute), most = Most(compute), most_active = Most(active);
  const auto ranks = static_cast<double>(compute.size()), time = static_cast<double>(elapsed.ns());
  if (ranks == 0 || most <= 0 || most_active <= 0 || time <= 0) return {};
  return {sum / (ranks * time), sum / (ranks * most), most / most_active, most_active / time};
}

LoadBalance SplitLoadBalance(std::span<const Nanos> compute, const Layout& layout) {
  LoadBalance out;
  const double most = Most(compute);
  const size_t ranks = compute.size();
  if (most <= 0 || layout.stage_of.size() != ranks) return out;
  std::vector<uint32_t> stage_of(ranks, 0), block_of(ranks, 0);
  bool staged = layout.stages > 1;
  for (size_t r = 0; r < ranks && staged; ++r) {
    staged = layout.stage_of[r] >= 0;
    if (staged) stage_of[r] = static_cast<uint32_t>(layout.stage_of[r]);
  }
  if (!staged) std::fill(stage_of.begin(), stage_of.end(), 0u);
  // Tensor groups are blocks; a rank without one is a block of its own.
  uint32_t groups = 0;
  bool sharded = false;
  for (uint32_t g : layout.tensor_group_of) groups = g == capture::kNone ? groups : std::max(groups, g + 1);
  for (size_t r = 0; r < ranks; ++r) {
    const uint32_t g = layout.tensor_group_of[r];
    sharded |= g != capture::kNone;
    block_of[r] = g == capture::kNone ? groups + static_cast<uint32_t>(r) : g;
  }
  const double mean = Sum(compute) / static_cast<double>(ranks);
  const double most_of_stages = staged ? MostOfMeans(compute, stage_of, layout.stages) : mean;
  const double most_of_blocks = sharded ? MostOfMeans(compute, block_of, groups + ranks) : most;
  if (most_of_stages <= 0 || most_of_blocks <= 0) return out;
  if (staged) out.stage = mean / most_of_stages;
  if (sharded) out.tensor = most_of_blocks / most;
  out.data = most_of_stages / most_of_blocks;
  return out;
}

}  // namespace lockstep::analysis
