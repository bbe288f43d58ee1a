// Finds the report of a capture for `lockstep history add`.
#ifndef LOCKSTEP_CLI_COMMANDS_HISTORY_INPUT_H_
#define LOCKSTEP_CLI_COMMANDS_HISTORY_INPUT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "cli/common/aggregator_client.h"
#include "history/model.h"

namespace lockstep::cli {

// Accepts the file report.json, a capture's folder or id, and recorded traces. A report that exists is read;
// else the capture is analysed, in that much memory (memory_limit.h). Errors name the input.
absl::StatusOr<history::CaptureSummary> SummaryOf(const std::string& input, const AggregatorFlags& aggregator,
                                                  uint64_t memory_bytes, HostTime now);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMANDS_HISTORY_INPUT_H_
