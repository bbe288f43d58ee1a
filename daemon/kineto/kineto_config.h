// Writes the request text for one trace by libkineto, and derives the trace file's name. Pure functions.
// docs/formats/kineto_ipc.md lists the keys.
#ifndef LOCKSTEP_DAEMON_KINETO_KINETO_CONFIG_H_
#define LOCKSTEP_DAEMON_KINETO_KINETO_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace lockstep::daemon {

// The profiler starts CUPTI this long before the window, so that the cost of enabling it lies outside.
// libkineto drops a request that leaves less time.
inline constexpr Nanos kKinetoWarmup = Nanos::Seconds(5);
// libkineto's profiler thread checks for requests once a second.
inline constexpr Nanos kKinetoTick = Nanos::Seconds(1);

// A number of iterations, as the profiler counts them: one per step of an optimizer, or per call of the
// profiler's step. The recording begins at `first`, or else at the next multiple of `multiple`.
struct KinetoIterations {
  std::optional<uint64_t> first;
  uint64_t multiple = 1;
  uint64_t count = 1;
};

struct KinetoTraceRequest {
  // Part of the file's name and of the trace: letters, digits, '-' and '_' only.
  std::string session;
  // A folder in which the client may write: /tmp, or its KINETO_ONDEMAND_TRACE_DIR.
  std::string folder = "/tmp";
  HostInterval window;
  std::optional<KinetoIterations> iterations;  // used instead of the window
  uint32_t activities = 0;                     // ring::Activities bits
  uint32_t framework = 0;                      // v1::FrameworkActivity bits
};

// kInvalidArgument: a text contains characters that break its line, the window is empty, or a number is too
// large for libkineto.
absl::StatusOr<std::string> MakeKinetoConfig(const KinetoTraceRequest& request);

// Returns the name of the trace file of the client with this pid, in its own pid namespace. While the client
// writes, the name ends in ".tmp".
std::string KinetoFileName(const std::string& session, int32_t client_pid);
// Returns the file's name in /tmp, where a client writes that does not accept our folder.
std::string KinetoFallbackName(int32_t client_pid);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_KINETO_KINETO_CONFIG_H_
