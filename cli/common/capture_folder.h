// The folder that `lockstep trace` leaves: report.json, report.txt, report.html, merged.pftrace, traces/ and
// records/.
#ifndef LOCKSTEP_CLI_CAPTURE_FOLDER_H_
#define LOCKSTEP_CLI_CAPTURE_FOLDER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "capture/model/capture.h"
#include "cli/common/export_formats.h"
#include "report/report.h"

namespace lockstep::cli {

// Fills `<final>.partial` and renames it when all is there. Not destroyed data: without Commit the .partial
// folder stays.
class CaptureFolder {
 public:
  // An old .partial of the same name is removed.
  static absl::StatusOr<CaptureFolder> Create(const std::string& final_name);

  // Where records/ goes, for Fetch.
  std::string records() const { return partial_ + "/records"; }
  const std::string& partial() const { return partial_; }
  const std::string& name() const { return final_; }

  // A plain file of records/, in pieces.
  absl::Status AppendRecords(const std::string& file, std::string_view bytes);

  // After WriteTraces: the report names them.
  absl::Status WriteReports(const store::Capture& capture, const report::Analysis& analysis);
  absl::Status WriteTraces(const store::Capture& capture, const report::Analysis& analysis,
                           const std::vector<const ExportFormat*>& formats);
  // profiles/rank_N.cprofile of what records/ has of them; nothing where it has none. Of two processes with
  // one rank the later one's.
  absl::Status WriteProfiles();
  // Gives the folder its name, in place of what had it.
  absl::Status Commit();

 private:
  explicit CaptureFolder(std::string final_name)
      : final_(std::move(final_name)), partial_(final_ + ".partial") {}
  std::string final_;
  std::string partial_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CAPTURE_FOLDER_H_
