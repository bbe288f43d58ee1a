// What lockstepd is told: flags, environment and a file (common/settings/).
#ifndef LOCKSTEP_DAEMON_OPTIONS_H_
#define LOCKSTEP_DAEMON_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/log/log.h"
#include "base/time.h"

namespace lockstep::daemon {

inline constexpr char kDaemonVersion[] = "lockstepd " LOCKSTEP_VERSION;

struct Options {
  std::string socket;  // of clients; control.sock lies beside it
  std::vector<std::string> aggregators;
  std::string token_file;
  std::string node_id;
  std::string node_name;  // shown for this node; empty: the host's name
  uint64_t ring_bytes = 8u << 20;
  uint64_t thread_ring_bytes = 256u << 10;
  size_t spool_bytes = 64u << 20;
  // PyTorch's on-demand traces. kOwn: only at our own socket, not under dynolog's name.
  enum class Kineto : uint8_t { kOn, kOwn, kOff };
  Kineto kineto = Kineto::kOn;
  std::optional<uint16_t> dyno_port;  // nothing: dynolog's remote calls are not answered
  std::string metrics;                // where Prometheus is answered; empty: nowhere
  std::optional<Nanos> idle_exit;     // nothing: stays
  std::string log_file;               // empty: stderr
  std::string audit_file;             // empty: none is kept
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
};

// Nothing when the program is to end now, with `*exit_code`: --help and the like (0), a wrong argument,
// variable or file (2, said on stderr). `environment` as main gets it.
std::optional<Options> ParseOptions(int argc, const char* const* argv, const char* const* environment,
                                    int* exit_code);

// Where a daemon of this user listens when nobody says where.
std::string DefaultSocket();

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_OPTIONS_H_
