// The analysis itself, which both kinds of Analyst run.
#ifndef LOCKSTEP_AGGREGATOR_REPORTS_ANALYSIS_H_
#define LOCKSTEP_AGGREGATOR_REPORTS_ANALYSIS_H_

#include <cstdint>
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

struct ReportResources {
  unsigned threads = 0;       // most; 0: one per core. The bytes of the report do not depend on it.
  uint64_t memory_bytes = 0;  // most, of the whole process; 0: no limit
};

// Reads the capture, analyses it with these resources, and writes and finishes the sinks. If the memory does
// not suffice, the report is about the last steps, and says so (analysis/gains/fit_memory.h). Fails with the
// errors of formats::LoadCapture, of analysis::FitIntoMemory and of the sinks.
absl::StatusOr<ReportFacts> AnalyseCapture(const std::string& folder, const ReportResources& resources,
                                           const ReportSinks& sinks);

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_REPORTS_ANALYSIS_H_
