// The name of a capture's folder: -o with its tokens, or a default name.
#ifndef LOCKSTEP_CLI_COMMON_OUTPUT_NAME_H_
#define LOCKSTEP_CLI_COMMON_OUTPUT_NAME_H_

#include <ctime>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::cli {

struct OutputTokens {
  std::string host;                                     // %h
  std::string pid;                                      // %p
  std::string ranks;                                    // %r, as "0-7"
  std::string job;                                      // %j
  std::function<const char*(const char*)> environment;  // %q{NAME}; returns null if it is not set
};

// kInvalidArgument: an unknown token or an unset variable, which the error names. A token's value never
// contains a path separator.
absl::StatusOr<std::string> ExpandOutputName(const std::string& pattern, const OutputTokens& tokens);
// Returns "./lockstep-<job>-<yyyymmdd-hhmmss>" in local time.
std::string DefaultOutputName(const std::string& job, std::time_t now);
// Keeps letters, digits, '.', '_' and '-'; replaces every other character by '_'.
std::string AsFileName(const std::string& text);

enum class Overwrite { kNever, kForce };
// kAlreadyExists: `folder` exists and needs --force, or it exists and is neither empty nor marked as made by
// Lockstep (base/files/own_folder.h), so that --force does not replace it either.
absl::Status CheckOutput(const std::string& folder, Overwrite overwrite);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMON_OUTPUT_NAME_H_
