// Translates a client's loss counters to the stages and reasons of report.json.
#ifndef LOCKSTEP_DAEMON_DRAIN_LOSSES_H_
#define LOCKSTEP_DAEMON_DRAIN_LOSSES_H_

#include <string>

#include "base/time.h"
#include "lockstep/v1/ingest.pb.h"
#include "wire/columns/schema.h"
#include "wire/ring/reader.h"

namespace lockstep::daemon {

// Adds one Loss per (reason, kind) that is not zero. The client can write any number into its counters.
// `recording` is the time since they were last read. A counter that states more than one record per
// nanosecond of it is cut to that number, and the reason says so.
void AddLosses(const ring::LossCounts& counts, Nanos recording, const HostInterval& window,
               v1::CaptureEnd& end);
void AddLoss(const std::string& stage, columns::Kind kind, uint64_t records, const std::string& reason,
             const HostInterval& window, v1::CaptureEnd& end);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_DRAIN_LOSSES_H_
