// Is a daemon or an aggregator alive? What a kubelet or a watchdog runs, since it cannot send the token that
// /healthz asks for.
#ifndef LOCKSTEP_CLI_HEALTH_H_
#define LOCKSTEP_CLI_HEALTH_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/rpc/token.h"
#include "base/time.h"

namespace lockstep::cli {

struct HealthCall {
  std::string address;  // HOST:PORT or [IPv6]:PORT of --metrics or --http
  rpc::Token token;     // empty: none is sent
  Nanos within;         // for all of it; a name's look-up is not bounded by it
};

// Blocks. The one line of GET /healthz where it answers 200 (docs/formats/metrics.md). kInvalidArgument: the
// address. kUnavailable: nobody listens there, or what answers is no 200. kPermissionDenied: another token.
// kDeadlineExceeded: too late.
absl::StatusOr<std::string> AskHealth(const HealthCall& call);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_HEALTH_H_
