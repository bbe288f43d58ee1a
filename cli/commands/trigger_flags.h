// Flags of `lockstep trace` for the begin and the end of a capture.
#ifndef LOCKSTEP_CLI_COMMANDS_TRIGGER_FLAGS_H_
#define LOCKSTEP_CLI_COMMANDS_TRIGGER_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "lockstep/v1/common.pb.h"

namespace lockstep::cli {

// Values of the flags; empty: not given.
struct WindowFlags {
  std::string duration;
  std::string steps;
  std::string start_on_step;
  std::string start_on_range;
  bool start_on_profiler_api = false;
  std::string timeout = "60s";
};

// Parses --duration, by default 2 s. kInvalidArgument: the error names the flag.
absl::StatusOr<Nanos> ParseWindowLength(const std::string& duration);
// Returns nullopt if the capture runs from T0 for --duration.
absl::StatusOr<std::optional<v1::Trigger>> ParseTrigger(const WindowFlags& flags);
// Returns `asked` and the activities that must be recorded to detect the trigger: bits of ring::Activities.
// If `asked` has no CUDA activities, CUPTI stays closed, and only lockstep.h's functions can signal the
// profiler API.
uint32_t WithTrigger(uint32_t asked, const v1::Trigger& trigger);
// Describes the awaited event: "step 500", "a range \"epoch\"", ….
std::string BeginWords(const v1::Trigger& trigger);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMANDS_TRIGGER_FLAGS_H_
