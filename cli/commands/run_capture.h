// The flags that capture commands share, and the run of one capture: at an aggregator, or through the daemon
// of this node.
#ifndef LOCKSTEP_CLI_COMMANDS_RUN_CAPTURE_H_
#define LOCKSTEP_CLI_COMMANDS_RUN_CAPTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/commands/trace_session.h"
#include "cli/common/aggregator_client.h"
#include "cli/common/exit_code.h"
#include "lockstep/v1/control.pb.h"

namespace lockstep::cli {

struct CaptureFlags {
  std::string job;
  std::vector<int32_t> pids;
  std::string ranks;
  std::string output, formats = "kineto,perfetto";
  bool force = false, exit_code = false;
  uint64_t memory_bytes = 0;
  AggregatorFlags aggregator;
  // Client socket of this node's daemon, if the flags name no aggregator; empty: the usual ones.
  std::string daemon;
};

// The options that name a job. A command may add options that exclude them.
struct JobOptions {
  CLI::Option* job;
  CLI::Option* pid;
};
// Adds --job, --pid and --ranks. `job_help` says what happens without --job.
JobOptions AddRankFlags(CLI::App& sub, CaptureFlags& flags, const std::string& job_help);
// Adds the options for the folder, the exit code, the daemon and the aggregator.
void AddOutputFlags(CLI::App& sub, CaptureFlags& flags);

// Sets the job, the processes and the ranks of the request. kInvalidArgument: a value is wrong.
absl::Status SetRanks(const CaptureFlags& flags, v1::TraceRequest& request);
// kInvalidArgument: a value is wrong. Also fails if the folder exists, as far as its name is known.
absl::StatusOr<TraceOutput> OutputOf(const CaptureFlags& flags);

// Runs the capture, writes the folder and prints the report. SIGINT and SIGTERM end the capture, not this
// process. Call it before any other thread starts.
ExitCode RunCapture(const CaptureFlags& flags, const v1::TraceRequest& request, TraceOutput output);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMANDS_RUN_CAPTURE_H_
