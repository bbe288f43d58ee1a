// Pairs sends with receives that name each other's rank, over all pairs of ranks in a capture.
#ifndef LOCKSTEP_CAPTURE_ALIGN_MESSAGE_MATCH_H_
#define LOCKSTEP_CAPTURE_ALIGN_MESSAGE_MATCH_H_

#include "capture/align/clock_model.h"
#include "capture/align/group_members.h"
#include "capture/align/match.h"
#include "capture/align/missing_members.h"
#include "capture/model/capture.h"

namespace lockstep::capture {

// True for a send or a receive that names the other rank.
bool NamesItsPeer(const capture::Collective& c);

// Appends one instance to `matches` for each pair of a send and its receive, members by rank_index. The
// instances already in `matches` are collectives. Sets the match_statuses of messages without a partner.
// `clock` comes from the collectives and becomes more precise if the messages give better evidence.
void AppendMessages(const capture::Capture& capture, const GroupMembers& groups, ClockModel& clock,
                    Matches& matches, MatchStatuses& match_statuses);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_ALIGN_MESSAGE_MATCH_H_
