// Explains why instances lack members, and decides whether the other members are usable.
//
// A missing member has one of four reasons. Its kernel may lie outside its rank's window, as happens at the
// edges of every capture. Its record may have been lost inside the window. Its rank may never have been
// recorded. Or the matching is wrong. Only the last reason makes the other members unreliable.
#ifndef LOCKSTEP_CAPTURE_ALIGN_MISSING_MEMBERS_H_
#define LOCKSTEP_CAPTURE_ALIGN_MISSING_MEMBERS_H_

#include <cstdint>
#include <vector>

#include "capture/align/clock_model.h"
#include "capture/align/group_members.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"

namespace lockstep::capture {

// The reason why a collective is in no usable instance.
enum class MatchStatus : uint8_t { kUnmatched, kConflict, kCutByWindow, kPartnerLost };

// [rank_index][collective]; meaningful if Matches::instance_of leads to no usable instance.
using MatchStatuses = std::vector<std::vector<MatchStatus>>;

// Sets Instance::usable of every instance, and the match_statuses of all collectives in other instances. A
// status of kConflict stays.
void ExplainMissingMembers(const capture::Capture& capture, const GroupMembers& groups,
                           const ClockModel& clock, std::vector<Instance>& instances,
                           MatchStatuses& match_statuses);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_ALIGN_MISSING_MEMBERS_H_
