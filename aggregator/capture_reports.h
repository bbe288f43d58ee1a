// Makes the reports of captures that have ended.
#ifndef LOCKSTEP_AGGREGATOR_CAPTURE_REPORTS_H_
#define LOCKSTEP_AGGREGATOR_CAPTURE_REPORTS_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "aggregator/ingest/capture_use.h"
#include "aggregator/nodes/clock.h"
#include "aggregator/reports/analyst.h"
#include "aggregator/server_metrics.h"
#include "base/log/log.h"
#include "lockstep/v1/control.pb.h"

namespace lockstep::aggregator {

// Thread-safe. The references outlive it.
class CaptureReports {
 public:
  CaptureReports(Analyst& analyst, CaptureUse& use, ServerMetrics& metrics, const JobClock& clock,
                 WritesPage page, LogSink log)
      : analyst_(analyst), use_(use), metrics_(metrics), clock_(clock), page_(page), log_(std::move(log)) {}

  // Writes the report into the capture's folder, and returns when it is there. `finished` becomes PARTIAL if
  // the records show that ranks are incomplete. Without a report, its text and a file in the folder have the
  // reason; the capture does not fail, because the report can be made again from the records.
  void Make(const std::string& folder, v1::TraceFinished& finished);

 private:
  void NoteNoReport(const std::string& folder, const absl::Status& why, v1::TraceFinished& finished);

  Analyst& analyst_;
  CaptureUse& use_;
  ServerMetrics& metrics_;
  const JobClock& clock_;
  const WritesPage page_;
  const LogSink log_;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_CAPTURE_REPORTS_H_
