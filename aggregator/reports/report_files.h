// ReportFiles holds the files of one report while they are written.
#ifndef LOCKSTEP_AGGREGATOR_REPORTS_REPORT_FILES_H_
#define LOCKSTEP_AGGREGATOR_REPORTS_REPORT_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "aggregator/reports/analyst.h"
#include "base/fd.h"

namespace lockstep::aggregator {

// A file that has the name `path`.partial until Commit(). One thread.
struct ReportFile {
  std::string path;
  Fd fd;
};

// One thread. Without Commit(), the destructor removes the files.
class ReportFiles {
 public:
  // Creates report.json, report.txt and, if requested, report.html, in this order. An error names the path
  // and the system's reason.
  static absl::StatusOr<ReportFiles> Create(const std::string& folder, WritesPage page);
  ReportFiles(ReportFiles&&) = default;
  ReportFiles& operator=(ReportFiles&&) = delete;
  ~ReportFiles();

  const std::vector<ReportFile>& files() const { return files_; }
  // Gives the files their names. The bytes must be on disk.
  absl::Status Commit();

 private:
  ReportFiles() = default;
  std::vector<ReportFile> files_;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_REPORTS_REPORT_FILES_H_
