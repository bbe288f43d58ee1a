// Parses the command line of lockstep-sim-fleet.
#ifndef LOCKSTEP_SIM_FLEET_OPTIONS_H_
#define LOCKSTEP_SIM_FLEET_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"

namespace lockstep::sim {

struct FleetOptions {
  std::string aggregator;  // address; the bare server listens on it
  std::string token_file;
  bool plaintext = false;
  bool other_machines = false;  // `aggregator` may be on another machine

  uint32_t daemons = 8;
  uint32_t ranks_per_daemon = 1;
  uint32_t rows = 3000;  // per rank and capture
  std::string job = "fleet";
  std::optional<uint32_t> slow_rank;
  uint32_t slow_by_percent = 20;
  std::optional<uint32_t> leaver;  // daemon that breaks its stream inside the first window

  uint32_t clock_burst = 20;  // exchanges when a daemon registers and when a capture begins
  Nanos clock_pause = Nanos::Millis(50);
  uint32_t threads = 2;
  uint32_t captures = 0;  // end after this number; 0: at SIGINT or SIGTERM
  bool measure_decode = false;

  uint32_t bare_rounds = 0;  // not 0: run the bare server for this number of rounds

  uint32_t ranks() const { return daemons * ranks_per_daemon; }
};

// Returns -1 to continue, else the exit code: after the help text, or after an error on stderr.
int ParseFleetOptions(int argc, char** argv, FleetOptions* out);

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_FLEET_OPTIONS_H_
