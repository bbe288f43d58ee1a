// What `report`, `analyze` and `export` share: reading a capture, and printing its analysis.
#ifndef LOCKSTEP_CLI_ANALYSIS_OUTPUT_H_
#define LOCKSTEP_CLI_ANALYSIS_OUTPUT_H_

#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "aggregator/trace/readers.h"
#include "capture/model/capture.h"
#include "cli/common/aggregator_client.h"
#include "cli/common/exit_code.h"
#include "cli/common/progress.h"
#include "report/report.h"

namespace lockstep::cli {

struct ReportFlags {
  std::string format = "text";
  std::string output;  // empty: stdout
  int top = 5;
  bool exit_code = false;
  // Not flags: how a command line names what is reported, and whether it is a capture's folder with its
  // traces.
  std::string source;
  bool has_traces = false;
};
void AddReportFlags(CLI::App& app, ReportFlags& flags);
// --format and -o only.
void AddOutputFlags(CLI::App& app, ReportFlags& flags);
// kInvalidArgument: no such format.
absl::Status CheckReportFlags(const ReportFlags& flags);

// How wide and colourful text to that output is.
report::TextOptions TextFor(const ReportFlags& flags);
// Writes a whole document to where the flags say.
ExitCode PrintText(const std::string& text, const ReportFlags& flags);
// Prints as the flags say, and gives the exit code. `analysis` is of that capture.
ExitCode PrintReport(const store::Capture& capture, const report::Analysis& analysis,
                     const ReportFlags& flags);
// How much of the host's calls that output needs: the page shows views that need all.
trace::HostDetail DetailFor(const ReportFlags& flags);

// Is it a capture's folder with a merged trace in it?
bool HasTraces(const std::string& path);

// Is there a straggler with verdict sure or likely?
bool HasStraggler(const report::Report& report);

// Any input: capture folders and recorded traces by path. Leaves `progress` showing that the analysis runs,
// which is what callers do next; they clear it before they print.
absl::StatusOr<store::Capture> ReadPaths(const std::vector<std::string>& paths, Progress& progress,
                                         trace::HostDetail host = trace::HostDetail::kUnions);
// Each a folder or file, or what FindCapture() finds.
absl::StatusOr<std::vector<std::string>> FindCaptures(const std::vector<std::string>& names);
// A folder, or the id of a capture that this user's aggregator keeps on this machine.
absl::StatusOr<std::string> FindCapture(const std::string& name);
// The same, else from the aggregator that the flags name, into a folder that lives as long as `fetched`.
absl::StatusOr<std::string> FindOrFetchCapture(const std::string& name, const AggregatorFlags& aggregator,
                                               std::unique_ptr<TemporaryFolder>& fetched);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_ANALYSIS_OUTPUT_H_
