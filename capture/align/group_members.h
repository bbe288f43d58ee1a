// Members of each group of a capture, and the recorded ones among them.
#ifndef LOCKSTEP_CAPTURE_ALIGN_GROUP_MEMBERS_H_
#define LOCKSTEP_CAPTURE_ALIGN_GROUP_MEMBERS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::capture {

// Views the capture, which must outlive it. Read-only after construction, so any thread may use it.
class GroupMembers {
 public:
  explicit GroupMembers(const capture::Capture& capture);

  // Entries of Capture::ranks that have a collective of the group, ascending.
  const std::vector<uint32_t>& Participants(uint32_t group) const { return participants_[group]; }
  // Number of members that the source states, or that take part if those are more.
  size_t Expected(uint32_t group) const;
  // Number of members without any record in the capture.
  size_t Absent(uint32_t group) const { return absent_[group]; }
  // Entries of recorded members that have no collective of the group, ascending. Empty for assumed groups,
  // where such a rank need not be a member.
  const std::vector<uint32_t>& Silent(uint32_t group) const { return silent_[group]; }
  // Rank within the group, or -1 for a rank that is not a member.
  int32_t Place(uint32_t group, uint32_t rank_index) const;
  size_t groups() const { return participants_.size(); }

 private:
  const capture::Capture& capture_;
  std::vector<std::vector<uint32_t>> participants_;
  std::vector<std::vector<uint32_t>> silent_;
  std::vector<size_t> absent_;
};

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_ALIGN_GROUP_MEMBERS_H_
