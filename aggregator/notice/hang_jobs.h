// Converts the daemons' answers to the jobs that ExplainHang takes. Pure functions.
#ifndef LOCKSTEP_AGGREGATOR_NOTICE_HANG_JOBS_H_
#define LOCKSTEP_AGGREGATOR_NOTICE_HANG_JOBS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "analysis/hang/hang_state.h"
#include "base/ids.h"
#include "lockstep/v1/progress.pb.h"

namespace lockstep::aggregator {

// Returns the jobs that have a living process, by name. `before` is an earlier look, which shows the
// processes that computed or moved between both; null: none.
std::vector<analysis::HangJob> HangJobsOf(const v1::ProgressReply& now, const v1::ProgressReply* before);

// Returns the living processes of these ranks of a user's job, as the request for their stacks.
std::vector<v1::StackTarget> StackTargetsOf(const v1::ProgressReply& look, uint32_t uid,
                                            const std::string& job, const std::set<RankId>& ranks);

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_NOTICE_HANG_JOBS_H_
