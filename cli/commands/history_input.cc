#include "cli/commands/history_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "analysis/gains/fit_memory.h"
#include "base/fd.h"
#include "base/files/byte_sink.h"
#include "base/files/read_files.h"
#include "base/rpc/status_macros.h"
#include "cli/common/analysis_output.h"
#include "cli/common/progress.h"
#include "formats/common/read_options.h"
#include "history/read_report.h"
#include "report/report.h"

namespace lockstep::cli {
namespace {

// A trace of PyTorch's profiler is JSON, too. Only a report has its schema at the beginning.
bool IsReportFile(const std::string& path) {
  const InputFile file = OpenInputFile(path);
  if (!file.fd.ok()) return false;
  char first[4096];
  const ssize_t n = ::read(file.fd.get(), first, sizeof first);
  return n > 0 &&
         std::string_view(first, static_cast<size_t>(n)).find("lockstep.report/") != std::string_view::npos;
}

// Returns the path of the report that exists, or an empty text.
std::string ReportOf(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return IsReportFile(path) ? path : "";
  std::string report = absl::StrCat(path, "/report.json");
  return std::filesystem::is_regular_file(report, error) ? report : "";
}

absl::StatusOr<std::string> AnalysedReport(const std::string& path, uint64_t memory_bytes) {
  // The values of a part would be compared with those of whole captures.
  const analysis::MemoryLimit limit{.bytes = memory_bytes, .may_shorten = analysis::MayShorten::kNo};
  capture::RowOverflow overflow = OverflowOf(limit);
  Progress progress;
  auto capture = ReadPaths({path}, progress, formats::HostDetail::kUnions, "", overflow);
  if (!capture.ok()) return absl::InvalidArgumentError(capture.status().message());
  LOCKSTEP_ASSIGN_OR_RETURN(const analysis::MemoryFit fit, FitAnalysis(limit, overflow, *capture, progress));
  const report::Analysis analysis =
      report::Analyze(*capture, {.threads = fit.threads, .disk = fit.disk.get()});
  progress.Clear();
  StringSink text;
  LOCKSTEP_RETURN_IF_ERROR(report::WriteJson(analysis.report, text));
  return text.text();
}

}  // namespace

absl::StatusOr<history::CaptureSummary> SummaryOf(const std::string& input, const AggregatorFlags& aggregator,
                                                  uint64_t memory_bytes, HostTime now) {
  std::unique_ptr<TemporaryFolder> fetched;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string path, FindOrFetchCapture(input, aggregator, fetched));
  const std::string report = ReportOf(path);
  std::string text;
  if (report.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(text, AnalysedReport(path, memory_bytes));
  } else {
    std::optional<std::string> read = FileText(report);
    if (!read) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", report));
    text = *std::move(read);
  }
  auto summary = history::ReadReport(text, now);
  if (summary.ok()) return summary;
  return absl::Status(summary.status().code(),
                      absl::StrCat(report.empty() ? input : report, " ", summary.status().message()));
}

}  // namespace lockstep::cli
