// What the hub knows, as rows of the index.
#ifndef LOCKSTEP_AGGREGATOR_SITE_LIVE_ROWS_H_
#define LOCKSTEP_AGGREGATOR_SITE_LIVE_ROWS_H_

#include <map>
#include <vector>

#include "aggregator/ingest/hub.h"
#include "aggregator/site/index.h"
#include "lockstep/v1/control.pb.h"

namespace lockstep::site {

// Running ones first, then those that were seen last. Pure.
std::vector<JobRow> JobRows(const v1::StatusReply& status,
                            const std::map<ingest::JobKey, ingest::SeenJob>& seen);

// A capture that has not ended. Pure.
CaptureRow RunningRow(const ingest::RunningCapture& capture);

}  // namespace lockstep::site

#endif  // LOCKSTEP_AGGREGATOR_SITE_LIVE_ROWS_H_
