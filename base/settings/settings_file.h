// A configuration file: `key = value` lines. docs/formats/config.md is the document.
#ifndef LOCKSTEP_COMMON_SETTINGS_SETTINGS_FILE_H_
#define LOCKSTEP_COMMON_SETTINGS_SETTINGS_FILE_H_

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
  std::vector<FileLine> lines;      // without comments and empty ones
  std::vector<std::string> errors;  // each names file, line and remedy
};

// `name` is only for the errors.
FileContent ParseSettings(std::string_view text, const std::string& name);

// A regular file of at most 1 MiB. The status names the file and what to do.
absl::StatusOr<std::string> ReadSettingsFile(const std::string& path);

// Of `known` the one that `word` was meant to be; empty where none is like it.
std::string NearestWord(std::string_view word, const std::vector<std::string>& known);

}  // namespace lockstep::settings

#endif  // LOCKSTEP_COMMON_SETTINGS_SETTINGS_FILE_H_
