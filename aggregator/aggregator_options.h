// Settings of lockstep-aggregator from flags, environment and a file (base/settings/).
#ifndef LOCKSTEP_AGGREGATOR_AGGREGATOR_OPTIONS_H_
#define LOCKSTEP_AGGREGATOR_AGGREGATOR_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "aggregator/captures/session_limits.h"
#include "aggregator/reports/analysis_limits.h"
#include "aggregator/retention.h"
#include "base/access/roles.h"
#include "base/settings/log_options.h"
#include "base/time.h"

namespace lockstep::aggregator {

struct AggregatorOptions {
  std::vector<std::string> listen;
  std::string token_file;
  std::string tls_dir;
  bool plaintext = false;  // --insecure-plaintext-tcp
  std::string http;
  std::string state_dir;
  Retention retention;
  AnalysisLimits analysis;
  StoreLimits store;
  Nanos hang_after;           // 0: no hang is noticed
  size_t alarm_captures = 0;  // per hour
  uint32_t alarm_steps = 5;
  std::string alarm_command;  // empty: none
  bool munge = false;
  std::string munge_socket;
  RoleSettings roles;
  int until_exit = 0;  // the aggregator ends when this pid ends; 0: none
  bool quiet = false;
  settings::LogOptions log;
  std::string audit_file;  // empty: no audit log
  bool audit_syslog = false;
};

// Returns nothing if the program is to end now with `*exit_code`: 0 for --help and similar, 2 for a wrong
// argument, variable or file (with a message on stderr). `environment` is main's third argument.
std::optional<AggregatorOptions> ParseAggregatorOptions(int argc, char** argv, char** environment,
                                                        int* exit_code);

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_AGGREGATOR_OPTIONS_H_
