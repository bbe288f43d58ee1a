#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/log/log.h"
#include "base/rpc/address.h"
#include "base/rpc/channel.h"
#include "base/rpc/security.h"
#include "base/rpc/status_macros.h"
#include "base/rpc/token.h"
#include "sim/fleet/bare_server.h"
#include "sim/fleet/fleet.h"
#include "sim/fleet/options.h"

namespace lockstep::sim {
namespace {

volatile std::sig_atomic_t g_fleet_stop = 0;

void CatchFleetSignals() {
  struct sigaction action = {};
  action.sa_handler = [](int) { g_fleet_stop = 1; };
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

void PrintLine(const std::string& line) {
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

absl::StatusOr<std::shared_ptr<rpc::Security>> SecurityOf(const FleetOptions& options,
                                                          const rpc::Token& token) {
  LOCKSTEP_ASSIGN_OR_RETURN(const rpc::Address address, rpc::Address::Parse(options.aggregator));
  if (address.is_unix()) return std::shared_ptr<rpc::Security>();
  rpc::SecuritySettings settings;
  settings.token = token;
  if (options.plaintext) settings.plaintext = rpc::SecuritySettings::Plaintext::kYes;
  return rpc::Security::ForClient(settings, tls::Holder::kNode, std::make_shared<SystemClock>(), &LogNothing);
}

absl::Status RunProgram(const FleetOptions& options) {
  const auto stop = [] { return g_fleet_stop != 0; };
  if (options.bare_rounds > 0) return RunBareServer(options, &PrintLine, stop);
  rpc::Token token;
  if (!options.token_file.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(token, rpc::Token::Load(options.token_file));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<rpc::Security> security, SecurityOf(options, token));
  Fleet fleet(options, std::move(token), std::move(security), &PrintLine);
  return fleet.Run(stop);
}

}  // namespace
}  // namespace lockstep::sim

int main(int argc, char** argv) {
  using namespace lockstep::sim;
  FleetOptions options;
  if (const int code = ParseFleetOptions(argc, argv, &options); code >= 0) return code;
  CatchFleetSignals();
  lockstep::rpc::PrepareProcess();
  const absl::Status status = RunProgram(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "lockstep-sim-fleet: %s\n", std::string(status.message()).c_str());
  return 1;
}
