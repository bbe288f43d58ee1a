// The text that asks libkineto for one trace, and where its file will be. Pure. docs/formats/kineto_ipc.md
// lists the keys.
#ifndef LOCKSTEP_DAEMON_KINETO_CONFIG_H_
#define LOCKSTEP_DAEMON_KINETO_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace lockstep::daemon {

// The profiler starts CUPTI so long before the window, so that what enabling costs lies outside. libkineto
// drops a request that leaves it less.
inline constexpr Nanos kKinetoWarmup = Nanos::Seconds(5);
// Its profiler thread looks at requests once a second.
inline constexpr Nanos kKinetoTick = Nanos::Seconds(1);

// So many iterations, by the profiler's own count: one for each step of an optimizer, or call of the
// profiler's step. It begins at `first`, or else at the next multiple of `multiple`.
struct KinetoIterations {
  std::optional<uint64_t> first;
  uint64_t multiple = 1;
  uint64_t count = 1;
};

struct KinetoTraceRequest {
  // Becomes part of the file's name and of the trace: letters, digits, '-' and '_' only.
  std::string session;
  // Where the client may write: /tmp, or its KINETO_ONDEMAND_TRACE_DIR.
  std::string folder = "/tmp";
  HostInterval window;
  std::optional<KinetoIterations> iterations;  // instead of the window
  uint32_t activities = 0;                     // ring::Activities bits
  uint32_t framework = 0;                      // v1::FrameworkActivity bits
};

// kInvalidArgument where a text would break out of its line, the window is empty, or a number too large for
// libkineto.
absl::StatusOr<std::string> MakeKinetoConfig(const KinetoTraceRequest& request);

// The plain name under which the client with this pid, in its own pid namespace, leaves the trace; while it
// writes, ".tmp" is appended.
std::string KinetoFileName(const std::string& session, int32_t client_pid);
// Where a client that does not accept our folder writes instead, always in /tmp.
std::string KinetoFallbackName(int32_t client_pid);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_KINETO_CONFIG_H_
