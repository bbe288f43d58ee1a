#include "aggregator/capture_reports.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "aggregator/captures/selection.h"
#include "aggregator/site/kept_captures.h"
#include "base/files/file_sink.h"
#include "base/files/read_files.h"
#include "base/rpc/status_macros.h"
#include "capture/store/records_manifest.h"

namespace lockstep::aggregator {
namespace {

// For the pages.
absl::Status KeepReason(const std::string& folder, const std::string& reason) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<ByteSink> sink,
                            OpenAtomicFile(absl::StrCat(folder, "/", kNoReportFile)));
  LOCKSTEP_RETURN_IF_ERROR(sink->Append(reason));
  LOCKSTEP_RETURN_IF_ERROR(sink->Append("\n"));
  return sink->Finish();
}

// The records may show more than the states of the ranks: a stepped clock, or a rank without records.
void NoteIncomplete(const std::vector<IncompleteReason>& ranks, v1::TraceFinished& finished) {
  if (ranks.empty() || finished.outcome() != v1::TraceFinished::COMPLETE) return;
  finished.set_outcome(v1::TraceFinished::PARTIAL);
  std::map<std::string, std::vector<int32_t>> by_reason;
  for (const IncompleteReason& row : ranks) by_reason[row.reason].push_back(row.rank.value());
  std::string text;
  for (const auto& [reason, listed] : by_reason)
    absl::StrAppend(&text, text.empty() ? "" : "; ", listed.size() == 1 ? "rank " : "ranks ",
                    RankList(listed), ": ", reason);
  finished.set_text(text);
}

}  // namespace

void CaptureReports::Make(const std::string& folder, v1::TraceFinished& finished) {
  const std::string id = std::filesystem::path(folder).filename().string();
  const std::unique_ptr<CaptureUse::Hold> hold = use_.Read(id);
  const MonoTime begun = MonoNow();
  const absl::StatusOr<capture::Manifest> manifest = capture::ParseManifest(
      FileText(absl::StrCat(folder, "/records/", capture::kManifestName)).value_or(""));
  const absl::StatusOr<ReportFacts> report =
      manifest.ok() ? analyst_.Report({folder, manifest->uid}, page_) : manifest.status();
  if (report.ok()) {
    NoteIncomplete(report->incomplete, finished);
  } else {
    NoteNoReport(folder, report.status(), finished);
  }
  metrics_.NoteReport(manifest.ok() ? manifest->job : "", report, MonoNow() - begun,
                      clock_.Now() - JobTime());
}

void CaptureReports::NoteNoReport(const std::string& folder, const absl::Status& why,
                                  v1::TraceFinished& finished) {
  log_(LogLevel::kError, "report_failed", {{"folder", folder}, {"reason", why.message()}});
  finished.set_text(absl::StrCat(finished.text(), finished.text().empty() ? "" : "; ",
                                 "the aggregator made no report: ", why.message()));
  if (const absl::Status kept = KeepReason(folder, std::string(why.message())); !kept.ok())
    log_(LogLevel::kError, "reason_not_kept", {{"folder", folder}, {"reason", kept.message()}});
}

}  // namespace lockstep::aggregator
