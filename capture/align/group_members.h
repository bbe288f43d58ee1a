// Who belongs to each group of a capture, and whose records there are.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_GROUP_MEMBERS_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_GROUP_MEMBERS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::align {

// Views the capture, which must outlive it. Read-only after construction; any thread.
class GroupMembers {
 public:
  explicit GroupMembers(const store::Capture& capture);

  // Entries of Capture::ranks that have a collective of the group, ascending.
  const std::vector<uint32_t>& Participants(uint32_t group) const { return participants_[group]; }
  // As the source states them, or as many as take part.
  size_t Expected(uint32_t group) const;
  // Members of whom the capture has nothing at all: ranks that were not recorded.
  size_t Absent(uint32_t group) const { return absent_[group]; }
  // Members that were recorded and have no collective of the group, ascending. Not for groups that are only
  // assumed, where such a rank need not be a member.
  const std::vector<uint32_t>& Silent(uint32_t group) const { return silent_[group]; }
  // Rank in the group, or -1.
  int32_t Place(uint32_t group, uint32_t rank_index) const;
  size_t groups() const { return participants_.size(); }

 private:
  const store::Capture& capture_;
  std::vector<std::vector<uint32_t>> participants_;
  std::vector<std::vector<uint32_t>> silent_;
  std::vector<size_t> absent_;
};

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_GROUP_MEMBERS_H_
