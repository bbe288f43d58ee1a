// The options of a log, the same for every program that has one.
#ifndef LOCKSTEP_COMMON_SETTINGS_LOG_OPTIONS_H_
#define LOCKSTEP_COMMON_SETTINGS_LOG_OPTIONS_H_

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/log/log.h"

namespace lockstep::settings {

// As parsed; outlives the parser's last use.
struct LogOptions {
  std::string file;  // empty: stderr
  std::string level_name = "info";
  std::string format_name = "text";

  LogLevel level() const;
  LogFormat format() const;
};

// --log, --log-level and --log-format.
void AddLogOptions(CLI::App& app, LogOptions& options);
// The file to append to, mode 0600; without one Fd() where no file is named. The status names it.
absl::StatusOr<Fd> OpenLog(const std::string& file);

}  // namespace lockstep::settings

#endif  // LOCKSTEP_COMMON_SETTINGS_LOG_OPTIONS_H_
