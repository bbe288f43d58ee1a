// CaptureFolder is the folder that `lockstep trace` writes: report.json, report.txt, report.html,
// merged.pftrace, traces/ and records/.
#ifndef LOCKSTEP_CLI_COMMON_CAPTURE_FOLDER_H_
#define LOCKSTEP_CLI_COMMON_CAPTURE_FOLDER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "capture/model/capture.h"
#include "cli/common/export_formats.h"
#include "report/report.h"

namespace lockstep::cli {

// Fills `<final>.partial-XXXXXX`, a folder of its own, which Commit renames when it is complete. Without
// Commit that folder remains, so that no data is lost.
class CaptureFolder {
 public:
  static absl::StatusOr<CaptureFolder> Create(const std::string& final_name);

  // Folder for the files that Fetch receives.
  std::string records() const { return partial_ + "/records"; }
  const std::string& partial() const { return partial_; }
  const std::string& name() const { return final_; }

  // Appends a piece to a plain file of records/.
  absl::Status AppendRecords(const std::string& file, std::string_view bytes);

  // Removes the files that AppendRecords wrote.
  absl::Status DropRecords();

  // Call WriteReports after WriteTraces, because the report lists the traces.
  absl::Status WriteReports(const capture::Capture& capture, const report::Analysis& analysis);
  absl::Status WriteTraces(const capture::Capture& capture, const report::Analysis& analysis,
                           const std::vector<const ExportFormat*>& formats);
  // Writes profiles/rank_N.cprofile from the profiles in records/, if there are any. If two processes had the
  // same rank, the later one counts.
  absl::Status WriteProfiles();
  // Renames the folder to its final name. It replaces a folder that Lockstep made, and no other
  // (kFailedPrecondition).
  absl::Status Commit();

 private:
  CaptureFolder(std::string final_name, std::string partial)
      : final_(std::move(final_name)), partial_(std::move(partial)) {}
  std::string final_;
  std::string partial_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMON_CAPTURE_FOLDER_H_
