// Messages between two ranks that name each other: which receive answers which send, over all pairs of a capture.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_MESSAGE_MATCH_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_MESSAGE_MATCH_H_

#include "aggregator/align/clock_model.h"
#include "aggregator/align/group_members.h"
#include "aggregator/align/match.h"
#include "aggregator/align/missing_members.h"
#include "aggregator/store/capture.h"

namespace lockstep::align {

// A send or receive that knows the other rank.
bool NamesItsPeer(const store::Collective& c);

// Appends one instance per pair to `matches`, whose instances are the collectives, sender and receiver in the order of rank_index; sets the
// fates of the kernels without one. `clock`, which the collectives give, becomes better where messages tell more.
void AppendMessages(const store::Capture& capture, const GroupMembers& groups, ClockModel& clock, Matches& matches, Fates& fates);

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_MESSAGE_MATCH_H_
