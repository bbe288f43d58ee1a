#include "cli/common/capture_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/fd.h"
#include "base/files/file_sink.h"
#include "base/files/own_folder.h"
#include "base/files/read_files.h"
#include "base/rpc/status_macros.h"
#include "capture/store/records_manifest.h"
#include "web/page/page.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

absl::Status WriteText(const std::string& path, const std::string& text) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<ByteSink> sink, OpenAtomicFile(path));
  LOCKSTEP_RETURN_IF_ERROR(sink->Append(text));
  return sink->Finish();
}

}  // namespace

absl::StatusOr<CaptureFolder> CaptureFolder::Create(const std::string& final_name) {
  std::string name = final_name;
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  LOCKSTEP_ASSIGN_OR_RETURN(std::string partial, MakeFolderBeside(name, OwnFolder::kCapture));
  CaptureFolder folder(std::move(name), std::move(partial));
  std::error_code error;
  fs::create_directory(folder.records(), error);
  if (error)
    return absl::PermissionDeniedError(
        absl::StrCat("cannot create ", folder.records(), ": ", error.message()));
  return folder;
}

absl::Status CaptureFolder::AppendRecords(const std::string& file, std::string_view bytes) {
  const bool manifest = file == capture::kManifestName || file == capture::kOpenManifestName;
  // The name comes from the network, so it is checked.
  const bool of_a_process =
      capture::ParseRecordsFileName(file).has_value() || capture::ParseTraceFileName(file).has_value();
  if (!capture::IsPlainFileName(file) || !(manifest || of_a_process)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the aggregator sent a file named \"", file, "\", which does not belong to a capture"));
  }
  const std::string path = absl::StrCat(records(), "/", file);
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", path));
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status CaptureFolder::DropRecords() {
  std::error_code error;
  fs::remove_all(records(), error);
  if (!error) fs::create_directory(records(), error);
  if (error)
    return absl::PermissionDeniedError(absl::StrCat("cannot clear ", records(), ": ", error.message()));
  return absl::OkStatus();
}

absl::Status CaptureFolder::WriteReports(const capture::Capture& capture, const report::Analysis& analysis) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<ByteSink> json, OpenAtomicFile(partial_ + "/report.json"));
  LOCKSTEP_RETURN_IF_ERROR(report::WriteJson(analysis.report, *json));
  LOCKSTEP_RETURN_IF_ERROR(json->Finish());
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<ByteSink> page, OpenAtomicFile(partial_ + "/report.html"));
  LOCKSTEP_RETURN_IF_ERROR(
      web::WritePage({.capture = capture, .analysis = analysis, .source = final_}, *page));
  LOCKSTEP_RETURN_IF_ERROR(page->Finish());
  std::error_code ignored;
  return WriteText(
      partial_ + "/report.txt",
      report::RenderText(
          analysis.report,
          {.lines = 0, .source = final_, .has_traces = fs::exists(partial_ + "/merged.pftrace", ignored)}));
}

absl::Status CaptureFolder::WriteTraces(const capture::Capture& capture, const report::Analysis& analysis,
                                        const std::vector<const ExportFormat*>& formats) {
  std::vector<uint32_t> all(capture.ranks.size());
  std::iota(all.begin(), all.end(), 0u);
  for (const ExportFormat* format : formats) {
    LOCKSTEP_RETURN_IF_ERROR(format->write({.capture = capture,
                                            .analysis = analysis,
                                            .ranks = all,
                                            .output = absl::StrCat(partial_, "/", format->in_folder)}));
  }
  return absl::OkStatus();
}

absl::Status CaptureFolder::WriteProfiles() {
  std::map<RankId, capture::TraceFileOwner> of_ranks;
  std::error_code error;
  for (const fs::directory_entry& entry : FolderEntries(records())) {
    const auto owner = capture::ParseTraceFileName(entry.path().filename().string());
    if (!owner || owner->kind != capture::TraceFileKind::kPythonProfile || owner->rank < RankId(0)) continue;
    const auto [known, made] = of_ranks.try_emplace(owner->rank, *owner);
    if (known->second.process < owner->process) known->second = *owner;
  }
  const std::string folder = partial_ + "/profiles";
  if (!of_ranks.empty()) fs::create_directory(folder, error);
  for (const auto& [rank, owner] : of_ranks) {
    const std::string from = absl::StrCat(records(), "/", capture::TraceFileName(owner));
    const std::string to = absl::StrCat(folder, "/rank_", rank.value(), ".cprofile");
    // Uses a hard link if the file system supports it.
    fs::create_hard_link(from, to, error);
    if (error) fs::copy_file(from, to, error);
    if (error) return absl::UnavailableError(absl::StrCat("cannot write ", to, ": ", error.message()));
  }
  return absl::OkStatus();
}

absl::Status CaptureFolder::Commit() { return MoveOwnFolder(partial_, final_, OwnFolder::kCapture); }

}  // namespace lockstep::cli
