// Implements `lockstep health`, which checks that a daemon or an aggregator is alive. A kubelet or a watchdog
// runs it, because a plain probe cannot send the token that /healthz requires.
#ifndef LOCKSTEP_CLI_COMMANDS_HEALTH_H_
#define LOCKSTEP_CLI_COMMANDS_HEALTH_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/rpc/token.h"
#include "base/time.h"

namespace lockstep::cli {

struct HealthCall {
  std::string address;  // HOST:PORT or [IPv6]:PORT of --metrics or --http
  rpc::Token token;     // empty: none is sent
  // Limit of the whole call. It does not include the name's look-up, and connecting may take this long for
  // each address of a name.
  Nanos within;
  // Certificates (PEM) of the authorities that the server's certificate must be of; empty: no TLS.
  std::string authorities = {};
  std::string tls_dir = {};  // folder with the caller's certificate (tls::TlsFolder); empty: none
};

// Blocks. Returns the line of GET /healthz if the status is 200 (docs/formats/metrics.md). The error codes:
//   kInvalidArgument   the address is wrong
//   kUnavailable       the server does not answer, its status is not 200, or its certificate is not trusted
//   kPermissionDenied  the token is wrong
//   kDeadlineExceeded  the call took longer than `within`
absl::StatusOr<std::string> RequestHealth(const HealthCall& call);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMANDS_HEALTH_H_
