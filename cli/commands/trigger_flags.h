// When a capture begins and ends, as `lockstep trace` is told it.
#ifndef LOCKSTEP_CLI_TRIGGER_FLAGS_H_
#define LOCKSTEP_CLI_TRIGGER_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "lockstep/v1/common.pb.h"

namespace lockstep::cli {

// Texts of the command line; empty: not given.
struct WindowFlags {
  std::string duration;
  std::string steps;
  std::string start_on_step;
  std::string start_on_range;
  bool start_on_profiler_api = false;
  std::string timeout = "60s";
};

// --duration, 2 s where it is not given. kInvalidArgument names the flag.
absl::StatusOr<Nanos> ParseWindowLength(const std::string& duration);
// nullopt: from T0 for --duration.
absl::StatusOr<std::optional<v1::Trigger>> ParseTrigger(const WindowFlags& flags);
// `asked` and what must be recorded for the trigger to be seen: bits of ring::Activities. Where nothing of
// CUDA is asked for, CUPTI stays closed, and the profiler API is lockstep.h's alone.
uint32_t WithTrigger(uint32_t asked, const v1::Trigger& trigger);
// "step 500", "the range epoch", …: what is waited for.
std::string BeginWords(const v1::Trigger& trigger);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_TRIGGER_FLAGS_H_
