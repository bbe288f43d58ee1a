// Messages between two ranks that name each other: which receive answers which send, over all pairs of a
// capture.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_MESSAGE_MATCH_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_MESSAGE_MATCH_H_

#include "capture/align/clock_model.h"
#include "capture/align/group_members.h"
#include "capture/align/match.h"
#include "capture/align/missing_members.h"
#include "capture/model/capture.h"

namespace lockstep::align {

// A send or receive that knows the other rank.
bool NamesItsPeer(const store::Collective& c);

// Appends one instance per pair to `matches`, whose instances are the collectives, sender and receiver in the
// order of rank_index; sets the fates of the kernels without one. `clock`, which the collectives give,
// becomes better where messages tell more.
void AppendMessages(const store::Capture& capture, const GroupMembers& groups, ClockModel& clock,
                    Matches& matches, Fates& fates);

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_MESSAGE_MATCH_H_
