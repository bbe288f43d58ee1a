// Where a capture goes: -o with its tokens, or a name of its own.
#ifndef LOCKSTEP_CLI_OUTPUT_NAME_H_
#define LOCKSTEP_CLI_OUTPUT_NAME_H_

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
  std::function<const char*(const char*)> environment;  // %q{NAME}; null for one that is not set
};

// kInvalidArgument for an unknown token or an unset variable, by name. What a token stands for never adds a
// folder.
absl::StatusOr<std::string> ExpandOutputName(const std::string& pattern, const OutputTokens& tokens);
// "./lockstep-<job>-<yyyymmdd-hhmmss>", local time.
std::string DefaultOutputName(const std::string& job, std::time_t now);
// Letters, digits, '.', '_' and '-' stay; every other character becomes '_'.
std::string AsFileName(const std::string& text);

enum class Overwrite { kNever, kForce };
// kAlreadyExists: `folder` is there, and --force would replace it; or it is there and is no capture, which
// nothing replaces.
absl::Status CheckOutput(const std::string& folder, Overwrite overwrite);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_OUTPUT_NAME_H_
