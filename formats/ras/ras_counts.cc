#include "formats/ras/ras_counts.h"

#include <algorithm>
#include <set>
#include <vector>

#include "base/log/clean_text.h"

namespace lockstep::formats {
namespace {

using analysis::RasCommunicator;
using analysis::RasGroup;
using analysis::RasMember;
using analysis::RasOperation;

// Members without counts: RAS has no data about them.
bool HasNoCounts(const RasMember& member) {
  return member.status == RasMember::Status::kUnresponsive || member.status == RasMember::Status::kDead ||
         member.status == RasMember::Status::kNotInIt;
}

void FillOnlyEmptyGroup(const RasCommunicator& communicator, RasOperation& operation) {
  RasGroup* empty = nullptr;
  std::set<int32_t> listed;
  for (RasGroup& group : operation.groups) {
    if (!group.members.empty()) {
      listed.insert(group.members.begin(), group.members.end());
    } else if (empty != nullptr) {
      return;
    } else {
      empty = &group;
    }
  }
  for (const auto& [number, member] : communicator.members) {
    if (HasNoCounts(member)) listed.insert(number);
  }
  if (empty == nullptr || communicator.size <= 0 || communicator.size > kLargestRasCommunicator ||
      listed.size() + empty->size != static_cast<size_t>(communicator.size))
    return;
  for (int32_t number = 0; number < communicator.size; ++number) {
    if (!listed.contains(number)) empty->members.push_back(number);
  }
}

}  // namespace

RasOperation* RasOperationOf(RasCommunicator& communicator, std::string_view function) {
  const std::string name = CleanText(function, kLongestRasText);
  for (RasOperation& operation : communicator.operations) {
    if (operation.function == name) return &operation;
  }
  if (communicator.operations.size() == kMostRasOperations) return nullptr;
  RasOperation& made = communicator.operations.emplace_back();
  made.function = name;
  return &made;
}

RasGroup* RasGroupOf(RasOperation& operation, uint64_t count) {
  const auto place =
      std::lower_bound(operation.groups.begin(), operation.groups.end(), count,
                       [](const RasGroup& group, uint64_t wanted) { return group.count < wanted; });
  if (place != operation.groups.end() && place->count == count) return &*place;
  if (operation.groups.size() == kMostRasGroups) return nullptr;
  return &*operation.groups.insert(place, RasGroup{.count = count});
}

void CompleteRasGroups(RasCommunicator& communicator) {
  for (RasOperation& operation : communicator.operations) {
    for (RasGroup& group : operation.groups) {
      std::sort(group.members.begin(), group.members.end());
      group.members.erase(std::unique(group.members.begin(), group.members.end()), group.members.end());
      group.size = std::max(group.size, group.members.size());
    }
    FillOnlyEmptyGroup(communicator, operation);
  }
}

}  // namespace lockstep::formats
