// ChildAnalyst analyses each capture in a child process, because the rows come from other users' processes.
//
// A child has limits on memory, time, rows and files (analysis_limits.h), and can open only its capture
// (sandbox.h). Its end costs one capture its report. The children of a user run one after the other.
#ifndef LOCKSTEP_AGGREGATOR_REPORTS_CHILD_ANALYST_H_
#define LOCKSTEP_AGGREGATOR_REPORTS_CHILD_ANALYST_H_

#include <atomic>
#include <string>
#include <vector>

#include "aggregator/reports/analysis_limits.h"
#include "aggregator/reports/analysis_turns.h"
#include "aggregator/reports/analyst.h"
#include "base/log/log.h"
#include "lockstep/v1/analysis.pb.h"

namespace lockstep::aggregator {

struct ChildAnalystOptions {
  std::string program;  // lockstep-aggregator of `version`, as OwnProgram() returns it
  std::string version;
  AnalysisLimits limits;
  // Receives messages for operators. Any thread.
  LogSink log = &LogNothing;
};

// Returns a path that starts this program again. In a bundle, the kernel runs the loader, and the path is
// that of the starter in ../bin.
std::string OwnProgram(const std::string& name);

class ChildAnalyst final : public Analyst {
 public:
  explicit ChildAnalyst(ChildAnalystOptions options);

  absl::StatusOr<ReportFacts> Report(const StoredCapture& capture, WritesPage page) override;
  absl::StatusOr<Summary> Sample(const StoredCapture& capture) override;
  void Shutdown() override;

 private:
  absl::StatusOr<v1::AnalysisResult> Run(const StoredCapture& capture, v1::AnalysisOrder::Kind kind,
                                         const std::vector<int>& files);
  void NoteMissing(const v1::AnalysisResult& result);

  const ChildAnalystOptions options_;
  AnalysisTurns turns_;  // thread-safe
  std::atomic<bool> stopped_{false};
  std::atomic<bool> noted_{false};  // the log has the missing protections
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_REPORTS_CHILD_ANALYST_H_
