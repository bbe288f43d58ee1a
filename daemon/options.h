// Settings of lockstepd from flags, environment and a file (base/settings/).
#ifndef LOCKSTEP_DAEMON_OPTIONS_H_
#define LOCKSTEP_DAEMON_OPTIONS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/access/roles.h"
#include "base/log/log.h"
#include "base/time.h"

namespace lockstep::daemon {

struct Options {
  std::string socket;  // the clients' socket; control.sock is in the same folder
  std::vector<std::string> aggregators;
  std::string token_file;
  std::string tls_dir;
  bool plaintext = false;  // --insecure-plaintext-tcp
  std::string node_id;
  std::string node_name;  // shown for this node; empty: the host's name
  uint64_t ring_bytes = 8u << 20;
  uint64_t thread_ring_bytes = 256u << 10;
  size_t spool_bytes = 64u << 20;
  // PyTorch's on-demand traces. kOwn: only at our own socket, not under dynolog's name.
  enum class Kineto : uint8_t { kOn, kOwn, kOff };
  Kineto kineto = Kineto::kOn;
  RoleSettings roles;                 // of the users at the control socket
  std::optional<uint16_t> dyno_port;  // nothing: no port for dynolog's remote calls
  std::string metrics;                // address of the metrics port; empty: off
  std::optional<Nanos> idle_exit;     // nothing: never exits when idle
  std::string broker_for;             // the daemon's user if this is the broker; else empty
  bool with_broker = false;           // the broker is a service of its own
  std::string log_file;               // empty: stderr
  std::string audit_file;             // empty: no audit log
  bool audit_syslog = false;
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
};

// Returns nothing if the program is to end now with `*exit_code`: 0 for --help and similar, 2 for a wrong
// argument, variable or file (with a message on stderr). `environment` is main's third argument.
std::optional<Options> ParseOptions(int argc, const char* const* argv, const char* const* environment,
                                    int* exit_code);

// Returns the socket at which a daemon of this user listens by default; that of root is the system's.
std::string DefaultSocketOf(uid_t uid);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_OPTIONS_H_
