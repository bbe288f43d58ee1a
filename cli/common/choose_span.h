// Implements --span of the commands that read recorded traces.
#ifndef LOCKSTEP_CLI_COMMON_CHOOSE_SPAN_H_
#define LOCKSTEP_CLI_COMMON_CHOOSE_SPAN_H_

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "formats/common/read_options.h"

namespace lockstep::cli {

// Adds the flag under `name`, such as "--span". `text` outlives the parser.
void AddSpanFlag(CLI::App& app, std::string& text, const std::string& name = "--span");
// Reads the flag's text: empty, "last" or a number. kInvalidArgument: it is another text.
absl::StatusOr<formats::SpanChoice> ParseSpan(const std::string& text);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMON_CHOOSE_SPAN_H_
