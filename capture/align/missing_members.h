// Why instances lack members, and what that makes of those who are there.
//
// A member's kernel may lie outside of what its rank's window recorded (the edges of every capture cut some),
// its record may have been lost inside, its rank may never have been recorded, or the matching is wrong. Only
// the last weakens what the others say.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_MISSING_MEMBERS_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_MISSING_MEMBERS_H_

#include <cstdint>
#include <vector>

#include "capture/align/clock_model.h"
#include "capture/align/group_members.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"

namespace lockstep::align {

// What became of a collective that is in no usable instance.
enum class Fate : uint8_t { kUnmatched, kConflict, kCutByWindow, kPartnerLost };

// [rank_index][collective]; meaningful where Matches::instance_of leads to no usable instance.
using Fates = std::vector<std::vector<Fate>>;

// Decides Instance::usable of every instance and sets the fates of the rest; those that are kConflict stay
// so.
void ExplainMissingMembers(const store::Capture& capture, const GroupMembers& groups, const ClockModel& clock,
                           std::vector<Instance>& instances, Fates& fates);

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_MISSING_MEMBERS_H_
