// Captures that the aggregator makes by itself, after an alarm or for a recording.
#ifndef LOCKSTEP_AGGREGATOR_NOTICE_PROGRAM_CAPTURE_H_
#define LOCKSTEP_AGGREGATOR_NOTICE_PROGRAM_CAPTURE_H_

#include <functional>
#include <string>

#include "aggregator/captures/captures.h"
#include "aggregator/nodes/seen_rank.h"
#include "base/log/audit_log.h"
#include "lockstep/v1/control.pb.h"

namespace lockstep::aggregator {

// Runs a capture until its report is finished, as Captures::Trace.
using RunTrace =
    std::function<v1::TraceFinished(const v1::TraceRequest&, const Caller&, const CaptureSession::Emit&)>;

// Captures the usual activities of all ranks of the job, with the rights of its owner. `window` has the
// length of the capture, or of the past; the other fields are set here. The audit log has a `trace` by the
// program, with `because`. Returns when the report is finished. Any thread.
v1::TraceFinished CaptureByProgram(const JobKey& job, const std::string& because, v1::TraceRequest window,
                                   const RunTrace& trace, AuditLog& audit);

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_NOTICE_PROGRAM_CAPTURE_H_
