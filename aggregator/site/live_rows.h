// Converts data of daemons and captures to rows of the index.
#ifndef LOCKSTEP_AGGREGATOR_SITE_LIVE_ROWS_H_
#define LOCKSTEP_AGGREGATOR_SITE_LIVE_ROWS_H_

#include <map>
#include <vector>

#include "aggregator/captures/captures.h"
#include "aggregator/site/index.h"
#include "lockstep/v1/control.pb.h"

namespace lockstep::aggregator {

// Returns running jobs first, then ended ones, the most recently seen first. Pure function.
std::vector<JobRow> JobRows(const v1::StatusReply& status,
                            const std::map<aggregator::JobKey, aggregator::SeenJob>& seen);

// Returns the row of a capture that has not ended. Pure function.
CaptureRow RunningRow(const aggregator::RunningCapture& capture);

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_SITE_LIVE_ROWS_H_
