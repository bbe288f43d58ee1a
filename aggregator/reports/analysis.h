// The analysis itself, which both kinds of Analyst run.
#ifndef LOCKSTEP_AGGREGATOR_REPORTS_ANALYSIS_H_
#define LOCKSTEP_AGGREGATOR_REPORTS_ANALYSIS_H_

#include <string>

#include "absl/status/statusor.h"
#include "aggregator/reports/analyst.h"
#include "base/files/byte_sink.h"

namespace lockstep::aggregator {

inline constexpr char kReportJson[] = "report.json";
inline constexpr char kReportText[] = "report.txt";
inline constexpr char kReportPage[] = "report.html";

struct ReportSinks {
  ByteSink& json;
  ByteSink& text;
  ByteSink* page = nullptr;  // null: no page is written
};

// Reads the capture, analyses it on at most `threads` threads (0: one per core), and writes and finishes the
// sinks. The bytes do not depend on `threads`. Fails with the errors of formats::LoadCapture and of the
// sinks.
absl::StatusOr<ReportFacts> AnalyseCapture(const std::string& folder, unsigned threads,
                                           const ReportSinks& sinks);

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_REPORTS_ANALYSIS_H_
