#include "formats/common/nest_ranges.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"

namespace lockstep::formats {

void NestRanges(std::vector<capture::HostRange>& ranges) {
  const auto outer_first = [](const capture::HostRange& a, const capture::HostRange& b) {
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  };
  if (!std::is_sorted(ranges.begin(), ranges.end(), outer_first))
    std::stable_sort(ranges.begin(), ranges.end(), outer_first);
  absl::flat_hash_map<ThreadId, std::vector<HostTime>> open;
  for (capture::HostRange& range : ranges) {
    std::vector<HostTime>& ends = open[range.thread];
    while (!ends.empty() && ends.back() <= range.start && ends.back() < range.end) ends.pop_back();
    if (range.depth != ends.size()) range.depth = static_cast<uint32_t>(ends.size());
    ends.push_back(range.end);
  }
}

}  // namespace lockstep::formats
