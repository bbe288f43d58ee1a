// Reads a configuration file with lines of `key = value`. docs/formats/config.md describes the format.
#ifndef LOCKSTEP_BASE_SETTINGS_SETTINGS_FILE_H_
#define LOCKSTEP_BASE_SETTINGS_SETTINGS_FILE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::settings {

struct FileLine {
  int number = 0;  // from 1
  std::string key;
  std::string value;  // never empty
};

struct FileContent {
  std::vector<FileLine> lines;      // without comments and empty lines
  std::vector<std::string> errors;  // each with file, line and remedy
};

// Only the errors use `name`.
FileContent ParseSettings(std::string_view text, const std::string& name);

// Reads a regular file of at most 1 MiB. An error has the file and the remedy.
absl::StatusOr<std::string> ReadSettingsFile(const std::string& path);

}  // namespace lockstep::settings

#endif  // LOCKSTEP_BASE_SETTINGS_SETTINGS_FILE_H_
