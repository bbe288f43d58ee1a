#include "aggregator/notice/alarm_command.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "aggregator/reports/child_process.h"
#include "base/json/json_out.h"

namespace lockstep::aggregator {
namespace {

const char* KindName(Alarm::Kind kind) {
  switch (kind) {
    case Alarm::Kind::kSlower:
      return "slower";
    case Alarm::Kind::kHang:
      return "hang";
  }
  return "slower";
}

std::optional<std::string> Known(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

bool IsForeign(const struct stat& info) { return info.st_uid != 0 && info.st_uid != ::geteuid(); }
bool IsOpen(const struct stat& info) { return (info.st_mode & (S_IWGRP | S_IWOTH)) != 0; }

// Returns the first folder above `path` whose entries other users can replace, or an empty path.
std::filesystem::path UnsafeFolder(const std::filesystem::path& path) {
  for (std::filesystem::path folder = path.parent_path();; folder = folder.parent_path()) {
    struct stat info = {};
    if (::stat(folder.c_str(), &info) != 0 || IsForeign(info)) return folder;
    // In a sticky folder, only the owner of a file may replace it.
    if (IsOpen(info) && (info.st_mode & S_ISVTX) == 0) return folder;
    if (folder == folder.parent_path()) return {};
  }
}

// Returns why it failed; empty: it did not.
std::string FailureOf(const absl::StatusOr<ChildEnd>& end) {
  if (!end.ok()) return std::string(end.status().message());
  switch (end->how) {
    case ChildEnd::How::kExited:
      return end->code == 0 ? "" : absl::StrCat("it exited with ", end->code);
    case ChildEnd::How::kSignalled:
      return absl::StrCat("signal ", end->code, " ended it");
    case ChildEnd::How::kTimedOut:
      return "it was killed because it took too long";
    case ChildEnd::How::kStopped:
      return "it was killed because the aggregator ends";
    case ChildEnd::How::kLongAnswer:
      break;  // it gives none
  }
  return "";
}

}  // namespace

std::string AlarmDocument(const Alarm& alarm, const AlarmCapture& capture) {
  JsonOut out;
  out.BeginObject();
  out.Member("schema", "lockstep.alarm/1");
  out.Member("kind", KindName(alarm.kind));
  out.Member("job", alarm.job.job);
  out.Member("uid", alarm.job.uid);
  out.Member("text", alarm.text);
  out.Member("ranks", alarm.ranks);
  out.Member("hosts", alarm.hosts);
  out.Member("noticed_unix_ns", alarm.noticed.ns());
  out.Member("capture", Known(capture.capture));
  out.Member("no_capture", Known(capture.problem));
  out.EndObject();
  return out.Take();
}

absl::Status CheckAlarmCommand(const std::string& path) {
  struct stat file = {};
  if (path.empty() || path.front() != '/')
    return absl::InvalidArgumentError(
        "--alarm-command needs the absolute path of a program, without arguments");
  std::error_code error;
  const std::filesystem::path target = std::filesystem::canonical(path, error);
  if (error || ::stat(path.c_str(), &file) != 0)
    return absl::InvalidArgumentError(absl::StrCat("--alarm-command: the file ", path, " does not exist"));
  if (!S_ISREG(file.st_mode) || ::access(path.c_str(), X_OK) != 0)
    return absl::InvalidArgumentError(
        absl::StrCat("--alarm-command: ", path, " is not an executable file: chmod +x"));
  if (IsForeign(file) || IsOpen(file))
    return absl::InvalidArgumentError(
        absl::StrCat("--alarm-command: other users may change ", path, ": chown it, and chmod go-w"));
  for (const std::filesystem::path& name : {std::filesystem::path(path), target}) {
    const std::filesystem::path folder = UnsafeFolder(name);
    if (!folder.empty())
      return absl::InvalidArgumentError(absl::StrCat("--alarm-command: other users may replace ",
                                                     name.string(), ", because they may change ",
                                                     folder.string(), ": chown it, and chmod go-w"));
  }
  return absl::OkStatus();
}

void AlarmCommand::Run(const Alarm& alarm, const AlarmCapture& capture) {
  const std::string failure = Start(alarm, capture);
  if (failure.empty()) {
    log_(LogLevel::kInfo, "alarm_command_done", {{"job", alarm.job.job}, {"kind", KindName(alarm.kind)}});
  } else {
    log_(LogLevel::kError, "alarm_command_failed",
         {{"job", alarm.job.job}, {"kind", KindName(alarm.kind)}, {"reason", failure}});
  }
}

std::string AlarmCommand::Start(const Alarm& alarm, const AlarmCapture& capture) const {
  if (const absl::Status unsafe = CheckAlarmCommand(path_); !unsafe.ok())
    return std::string(unsafe.message());
  return FailureOf(RunChild(
      {.program = path_, .words = {path_}, .order = AlarmDocument(alarm, capture), .at_most = kAtMost},
      stop_));
}

}  // namespace lockstep::aggregator
