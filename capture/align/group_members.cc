#include "capture/align/group_members.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"

namespace lockstep::capture {

GroupMembers::GroupMembers(const capture::Capture& capture)
    : capture_(capture),
      participants_(capture.groups.size()),
      silent_(capture.groups.size()),
      absent_(capture.groups.size(), 0) {
  absl::flat_hash_map<RankId, uint32_t> recorded;
  for (uint32_t r = 0; r < capture.ranks.size(); ++r) {
    if (!capture.ranks[r].activities.empty()) recorded.try_emplace(capture.ranks[r].rank, r);
    for (const capture::Collective& c : capture.ranks[r].collectives) {
      if (c.group >= participants_.size()) continue;
      auto& list = participants_[c.group];
      if (list.empty() || list.back() != r) list.push_back(r);
    }
  }
  for (uint32_t g = 0; g < participants_.size(); ++g) {
    const std::vector<RankId>& members = capture.groups[g].members;
    if (members.empty()) absent_[g] = Expected(g) - participants_[g].size();
    for (const RankId member : members) {
      const auto it = recorded.find(member);
      if (it == recorded.end()) {
        ++absent_[g];
      } else if (!std::binary_search(participants_[g].begin(), participants_[g].end(), it->second) &&
                 capture.groups[g].origin != capture::GroupOrigin::kAssumed) {
        silent_[g].push_back(it->second);
      }
    }
    std::sort(silent_[g].begin(), silent_[g].end());
  }
}

size_t GroupMembers::Expected(uint32_t group) const {
  const capture::Group& g = capture_.groups[group];
  const size_t stated = g.members.empty() ? static_cast<size_t>(std::max(0, g.size)) : g.members.size();
  return std::max(stated, participants_[group].size());
}

int32_t GroupMembers::Place(uint32_t group, uint32_t rank_index) const {
  const auto& members = capture_.groups[group].members;
  const auto it = std::find(members.begin(), members.end(), capture_.ranks[rank_index].rank);
  return it == members.end() ? -1 : static_cast<int32_t>(it - members.begin());
}

}  // namespace lockstep::capture
