#include "analysis/hang/waits.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::analysis {
namespace {

// Operations of a communicator end in order, so an operation before one that has ended counts as ended. A
// call that a CUDA graph captured has no end of its own.
const HangOperation* FirstPending(const HangCommunicator& communicator) {
  // Without ends, only the last operation can be compared with other ranks.
  if (!communicator.reports_kernels)
    return communicator.operations.empty() ? nullptr : &communicator.operations.back();
  const HangOperation* pending = nullptr;
  for (const HangOperation& operation : communicator.operations) {
    if (operation.completed) {
      pending = nullptr;
    } else if (pending == nullptr) {
      pending = &operation;
    }
  }
  return pending;
}

std::optional<Nanos> GpuMovedAgo(const HangRank& rank) {
  std::optional<Nanos> latest;
  for (const HangCommunicator& communicator : rank.communicators) {
    for (const HangOperation& operation : communicator.operations) {
      for (const std::optional<Nanos>& stage : {operation.started_ago, operation.completed_ago}) {
        if (stage && (!latest || *stage < *latest)) latest = stage;
      }
    }
  }
  return latest;
}

std::string NameOf(const Group& group, const HangJob& job) {
  if (!group.name.empty()) return group.name;
  if (group.ranks > 0 && group.ranks == job.world_size) return "the communicator of all ranks";
  return absl::StrCat("communicator ", absl::Hex(group.id));
}

// The members that have entered collective `number` and have not ended it wait; the others are late.
void AddMember(const Member& member, uint64_t number, Wait& wait) {
  if (member.communicator->collectives_entered < number) {
    wait.late.push_back(&member);
    return;
  }
  if (member.pending == nullptr || member.pending->number != number) return;  // it has ended here
  wait.waiting.push_back(&member);
  wait.waited = std::max(wait.waited, member.waited());
  if (wait.operation == nullptr || member.pending->entered_ago > wait.operation->entered_ago)
    wait.operation = member.pending;
}

using Shape = std::tuple<std::string, std::string, uint64_t, int32_t>;
Shape ShapeOf(const HangOperation& operation) {
  return {operation.function, operation.datatype, operation.count, operation.peer};
}

// Finds the members whose operation of this number differs from most, also if it has ended there.
void FindDifferent(const Group& group, Wait& wait) {
  std::map<Shape, std::vector<const Member*>> shapes;
  for (const auto& [place, member] : group.members) {
    if (const HangOperation* operation = member.Find(wait.number))
      shapes[ShapeOf(*operation)].push_back(&member);
  }
  if (shapes.size() < 2) return;
  const auto usual = std::max_element(shapes.begin(), shapes.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  wait.lateness = Lateness::kDifferent;
  for (auto at = shapes.begin(); at != shapes.end(); ++at) {
    if (at != usual) wait.late.insert(wait.late.end(), at->second.begin(), at->second.end());
  }
}

// All members have entered it. Finds those that hold it up.
void FindLateKernels(const Group& group, Wait& wait) {
  FindDifferent(group, wait);
  const auto take = [&](Lateness lateness, auto is_late) {
    if (!wait.late.empty()) return;
    wait.lateness = lateness;
    Nanos others, late;
    for (const Member* member : wait.waiting) {
      if (is_late(*member)) wait.late.push_back(member);
      Nanos& longest = is_late(*member) ? late : others;
      longest = std::max(longest, member->waited());
    }
    // The others wait for these members, which have been late in this way for a shorter time perhaps.
    if (!wait.late.empty())
      wait.waited = wait.late.size() == wait.waiting.size() ? late : std::min(others, late);
  };
  take(Lateness::kNotLaunched,
       [](const Member& m) { return m.communicator->reports_launches && !m.pending->launched; });
  take(Lateness::kNotStarted,
       [](const Member& m) { return m.communicator->reports_kernels && !m.pending->started; });
  if (!wait.late.empty()) return;
  wait.lateness = Lateness::kNone;
  // The data is under way since the last member has started.
  for (const Member* member : wait.waiting) wait.waited = std::min(wait.waited, member->waited());
}

// If the table of each waiting rank begins later, they wait for the first collective that a rank has not
// entered.
void FindNumber(Wait& wait) {
  const bool truncated = std::all_of(wait.waiting.begin(), wait.waiting.end(),
                                     [](const Member* member) { return member->is_truncated(); });
  if (!truncated || wait.late.empty()) return;
  for (const Member* member : wait.late) {
    const uint64_t next = member->communicator->collectives_entered + 1;
    wait.name_known = wait.name_known && next >= wait.number;
    wait.number = std::min(wait.number, next);
  }
}

std::optional<Wait> CollectiveWait(const Group& group, size_t index) {
  // The oldest pending collective counts. Without ends, only the newest shows who is late.
  const bool ends = std::all_of(group.members.begin(), group.members.end(),
                                [](const auto& at) { return at.second.communicator->reports_kernels; });
  uint64_t number = 0;
  for (const auto& [place, member] : group.members) {
    if (member.pending == nullptr || member.pending->number == 0) continue;
    const uint64_t pending = member.pending->number;
    if (number == 0 || (ends ? pending < number : pending > number)) number = pending;
  }
  if (number == 0) return std::nullopt;
  Wait wait;
  wait.group = index;
  wait.number = number;
  for (const auto& [place, member] : group.members) AddMember(member, number, wait);
  // The number of ranks comes from a rank's memory.
  constexpr int32_t kMostRanks = 65536;
  for (int32_t place = 0; place < std::min(group.ranks, kMostRanks); ++place) {
    if (!group.members.contains(place)) wait.unknown.push_back(place);
  }
  if (!wait.late.empty() || !wait.unknown.empty()) {
    wait.lateness = Lateness::kNotEntered;
    FindNumber(wait);
  } else {
    FindLateKernels(group, wait);
  }
  return wait;
}

// A message waits for its peer, unless the peer also waits in a message with this member.
std::optional<Wait> MessageWait(const Group& group, size_t index) {
  std::optional<Wait> found;
  for (const auto& [place, member] : group.members) {
    const HangOperation* pending = member.pending;
    if (pending == nullptr || pending->number != 0) continue;
    const auto peer = group.members.find(pending->peer);
    Wait wait;
    wait.group = index;
    wait.operation = pending;
    wait.waiting.push_back(&member);
    wait.waited = member.waited();
    wait.lateness = Lateness::kNotEntered;
    if (peer == group.members.end()) {
      if (pending->peer >= 0) wait.unknown.push_back(pending->peer);
    } else if (const HangOperation* other = peer->second.pending;
               other == nullptr || other->number != 0 || other->peer != place) {
      wait.late.push_back(&peer->second);
    } else {
      wait.lateness = Lateness::kNone;
      // The data is under way since both have started.
      wait.waited = std::min(wait.waited, peer->second.waited());
    }
    if (!found || wait.waited > found->waited) found = std::move(wait);
  }
  return found;
}

}  // namespace

bool Member::is_truncated() const {
  return pending != nullptr && pending == &communicator->operations.front() && pending->position > 1;
}

Nanos Member::waited() const {
  const bool launched = pending->launched || !communicator->reports_launches;
  if (!communicator->reports_kernels || (!launched && !pending->started)) return pending->entered_ago;
  const std::optional<Nanos> since = pending->started ? pending->started_ago : gpu_moved_ago;
  return std::min(pending->entered_ago, since.value_or(pending->entered_ago));
}

const HangOperation* Member::Find(uint64_t number) const {
  for (const HangOperation& operation : communicator->operations) {
    if (operation.number == number) return &operation;
  }
  return nullptr;
}

std::vector<Group> FindGroups(const HangJob& job) {
  std::map<uint64_t, Group> by_id;
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    const std::optional<Nanos> gpu_moved_ago = GpuMovedAgo(job.ranks[rank]);
    for (const HangCommunicator& communicator : job.ranks[rank].communicators) {
      Group& group = by_id[communicator.id];
      group.id = communicator.id;
      if (group.name.empty()) group.name = communicator.name;
      group.ranks = std::max(group.ranks, communicator.ranks);
      group.members[communicator.rank] = {rank, &communicator, FirstPending(communicator), gpu_moved_ago};
    }
  }
  std::vector<Group> groups;
  for (auto& [id, group] : by_id) {
    group.name = NameOf(group, job);
    groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<Wait> FindWaits(const std::vector<Group>& groups) {
  std::vector<Wait> waits;
  for (size_t i = 0; i < groups.size(); ++i) {
    std::optional<Wait> wait = CollectiveWait(groups[i], i);
    if (!wait) wait = MessageWait(groups[i], i);
    if (wait && wait->operation != nullptr) waits.push_back(*std::move(wait));
  }
  return waits;
}

}  // namespace lockstep::analysis
