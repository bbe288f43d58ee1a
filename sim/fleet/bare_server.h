// BareServer is the least that an aggregator does to arm daemons: it answers their hellos, sends each stream
// an arm, and waits for all answers. Its times are a lower limit for an aggregator with the same daemons.
#ifndef LOCKSTEP_SIM_FLEET_BARE_SERVER_H_
#define LOCKSTEP_SIM_FLEET_BARE_SERVER_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "sim/fleet/options.h"

namespace lockstep::sim {

// Listens on the Unix socket `options.aggregator`, and runs until all rounds are over or `stop` returns true,
// which it asks ten times a second. Prints a line of JSON with the nanoseconds of each round.
absl::Status RunBareServer(const FleetOptions& options, const std::function<void(const std::string&)>& print,
                           const std::function<bool()>& stop);

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_FLEET_BARE_SERVER_H_
