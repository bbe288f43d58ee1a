// Shared by `report`, `analyze` and `export`: reading a capture and printing its analysis.
#ifndef LOCKSTEP_CLI_COMMON_ANALYSIS_OUTPUT_H_
#define LOCKSTEP_CLI_COMMON_ANALYSIS_OUTPUT_H_

#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "analysis/gains/fit_memory.h"
#include "capture/model/capture.h"
#include "capture/model/row_overflow.h"
#include "cli/common/aggregator_client.h"
#include "cli/common/exit_code.h"
#include "cli/common/progress.h"
#include "formats/common/read_options.h"
#include "report/report.h"

namespace lockstep::cli {

struct ReportFlags {
  std::string format = "text";
  std::string output;  // empty: stdout
  int top = 5;
  bool exit_code = false;
  // Not set by flags. `source` names the input on a command line; `has_traces` says whether it is a capture's
  // folder with a merged trace.
  std::string source;
  bool has_traces = false;
};
void AddReportFlags(CLI::App& app, ReportFlags& flags);
// kInvalidArgument: the format is unknown.
absl::Status CheckReportFlags(const ReportFlags& flags);

// Returns true if the output is a terminal.
bool IsTerminal(const ReportFlags& flags);
// Returns width and colour of text for that output.
report::TextOptions TextFor(const ReportFlags& flags);
// Writes a whole document to the output that the flags name.
ExitCode PrintText(const std::string& text, const ReportFlags& flags);
// Prints the report as the flags say and returns the exit code. `analysis` belongs to `capture`.
ExitCode PrintReport(const capture::Capture& capture, const report::Analysis& analysis,
                     const ReportFlags& flags);
// Returns the detail of host calls that the output needs. The HTML page has views that need all frames.
formats::HostDetail DetailFor(const ReportFlags& flags);

// Returns true if `path` is a capture's folder with a merged trace.
bool HasTraces(const std::string& path);

// Returns the straggler with verdict sure or likely that costs most; null: none. It belongs to `report`.
const report::StragglerRow* CostliestStraggler(const report::Report& report);

// Reads any input: capture folders and recorded traces by path. On return `progress` shows "analysing",
// because callers analyse next. They clear it before they print.
// `span` is the text of --span (choose_span.h). If the input has several spans, a message says which is read.
// `overflow` receives the rows that memory will not hold.
absl::StatusOr<capture::Capture> ReadPaths(const std::vector<std::string>& paths, Progress& progress,
                                           formats::HostDetail host, const std::string& span,
                                           capture::RowOverflow& overflow);
// Returns the folders for large tables: $TMPDIR, /tmp and /var/tmp.
std::vector<std::string> DiskFolders();
// Returns the overflow for an input that is analysed under this limit.
capture::RowOverflow OverflowOf(const analysis::MemoryLimit& limit);
// Fits the analysis of the capture into memory, right before report::Analyze(). Large tables go to
// DiskFolders() if they must. `overflow` is that of the reading. Clears `progress` on an error.
absl::StatusOr<analysis::MemoryFit> FitAnalysis(analysis::MemoryLimit limit, capture::RowOverflow& overflow,
                                                capture::Capture& capture, Progress& progress);
// The same for an output that needs all rows and no analysis. Returns the file; null: all rows are in memory.
absl::StatusOr<std::unique_ptr<capture::DiskRows>> FitRows(analysis::MemoryLimit limit,
                                                           capture::RowOverflow& overflow,
                                                           capture::Capture& capture, Progress& progress);
// Returns the bytes of the capture that are in memory, for MemoryLimit::other_bytes. `disk` may be null.
uint64_t BytesInMemory(const capture::Capture& capture, const capture::DiskRows* disk);
// Returns a path for each name: an existing folder or file, or the result of FindCapture().
absl::StatusOr<std::vector<std::string>> FindCaptures(const std::vector<std::string>& names);
// Accepts a folder, or the id of a capture that this user's aggregator keeps on this machine.
absl::StatusOr<std::string> FindCapture(const std::string& name);
// Like FindCapture, but otherwise fetches from the aggregator of the flags, into a folder that `fetched`
// owns.
absl::StatusOr<std::string> FindOrFetchCapture(const std::string& name, const AggregatorFlags& aggregator,
                                               std::unique_ptr<TemporaryFolder>& fetched);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMON_ANALYSIS_OUTPUT_H_
