// What lockstep-aggregator is told: flags, environment and a file (common/settings/).
#ifndef LOCKSTEP_AGGREGATOR_AGGREGATOR_OPTIONS_H_
#define LOCKSTEP_AGGREGATOR_AGGREGATOR_OPTIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "aggregator/retention.h"
#include "base/settings/log_options.h"

namespace lockstep {

struct AggregatorOptions {
  std::vector<std::string> listen;
  std::string token_file;
  std::string http;
  std::string state_dir;
  Retention retention;
  bool munge = false;
  std::string munge_socket;
  int until_exit = 0;  // pid to end with; 0: none
  bool quiet = false;
  settings::LogOptions log;
  std::string audit_file;  // empty: none is kept
};

// Nothing when the program is to end now, with `*exit_code`: --help and the like (0), a wrong argument,
// variable or file (2, said on stderr). `environment` as main gets it.
std::optional<AggregatorOptions> ParseAggregatorOptions(int argc, char** argv, char** environment,
                                                        int* exit_code);

}  // namespace lockstep

#endif  // LOCKSTEP_AGGREGATOR_AGGREGATOR_OPTIONS_H_
