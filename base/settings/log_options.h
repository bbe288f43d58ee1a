// The options of a log, equal in all programs that have one.
#ifndef LOCKSTEP_BASE_SETTINGS_LOG_OPTIONS_H_
#define LOCKSTEP_BASE_SETTINGS_LOG_OPTIONS_H_

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/log/log.h"

namespace lockstep::settings {

// The parsed values. They must outlive the parser's last use.
struct LogOptions {
  std::string file;  // empty: stderr
  std::string level_name = "info";
  std::string format_name = "text";

  LogLevel level() const;
  LogFormat format() const;
};

// Adds --log, --log-level and --log-format.
void AddLogOptions(CLI::App& app, LogOptions& options);
// Opens the file for appending, with mode 0600. Without a name it returns an empty Fd. An error names the
// file.
absl::StatusOr<Fd> OpenLog(const std::string& file);

}  // namespace lockstep::settings

#endif  // LOCKSTEP_BASE_SETTINGS_LOG_OPTIONS_H_
