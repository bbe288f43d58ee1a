#include "base/settings/log_options.h"

#include <fcntl.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace lockstep::settings {

LogLevel LogOptions::level() const {
  return level_name == "debug"     ? LogLevel::kDebug
         : level_name == "warning" ? LogLevel::kWarning
         : level_name == "error"   ? LogLevel::kError
                                   : LogLevel::kInfo;
}

LogFormat LogOptions::format() const { return format_name == "json" ? LogFormat::kJson : LogFormat::kText; }

void AddLogOptions(CLI::App& app, LogOptions& options) {
  app.add_option("--log", options.file, "File to append the log to; default: stderr");
  app.add_option("--log-level", options.level_name, "Lowest level to log: debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->default_str("info");
  app.add_option("--log-format", options.format_name, "Log format: text, or json with one object per line")
      ->check(CLI::IsMember({"text", "json"}))
      ->default_str("text");
}

absl::StatusOr<Fd> OpenLog(const std::string& file) {
  if (file.empty()) return Fd();
  Fd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write log file ", file));
  return fd;
}

}  // namespace lockstep::settings
