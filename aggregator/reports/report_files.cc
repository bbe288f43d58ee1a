#include "aggregator/reports/report_files.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "aggregator/reports/analysis.h"

namespace lockstep::aggregator {
namespace {

std::string PartialName(const ReportFile& file) { return file.path + ".partial"; }

}  // namespace

absl::StatusOr<ReportFiles> ReportFiles::Create(const std::string& folder, WritesPage page) {
  ReportFiles out;
  std::vector<const char*> names = {kReportJson, kReportText};
  if (page == WritesPage::kYes) names.push_back(kReportPage);
  for (const char* name : names) {
    ReportFile file;
    file.path = absl::StrCat(folder, "/", name);
    const std::string partial = PartialName(file);
    file.fd.reset(::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (!file.fd.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", partial));
    out.files_.push_back(std::move(file));
  }
  return out;
}

ReportFiles::~ReportFiles() {
  for (const ReportFile& file : files_) {
    if (file.fd.ok()) std::remove(PartialName(file).c_str());
  }
}

absl::Status ReportFiles::Commit() {
  for (ReportFile& file : files_) {
    if (std::rename(PartialName(file).c_str(), file.path.c_str()) != 0)
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot rename to ", file.path));
    file.fd.reset();
  }
  return absl::OkStatus();
}

}  // namespace lockstep::aggregator
