// Messages between two ranks that name each other: which receive answers which send, over all pairs of a capture.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_MESSAGE_MATCH_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_MESSAGE_MATCH_H_

#include <span>
#include <vector>

#include "aggregator/align/clock_model.h"
#include "aggregator/align/group_members.h"
#include "aggregator/align/match.h"
#include "aggregator/align/missing_members.h"
#include "aggregator/store/capture.h"

namespace lockstep::align {

// A send or receive that knows the other rank.
bool NamesItsPeer(const store::Collective& c);

// One instance per pair, sender and receiver in the order of rank_index, and the fates of those without one. `clock` puts the ranks on one
// clock, which the collectives give; `instances` are those.
std::vector<Instance> MatchMessages(const store::Capture& capture, const GroupMembers& groups, const ClockModel& clock, std::span<const Instance> instances,
                                    Fates& fates);

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_MESSAGE_MATCH_H_
