// Values on the command line: lengths of time, rank lists, activities.
#ifndef LOCKSTEP_CLI_VALUES_H_
#define LOCKSTEP_CLI_VALUES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace lockstep::cli {

// "2s", "500ms", "1.5s", "20us", "1m"; a bare number is refused, since nobody knows its unit.
absl::StatusOr<Nanos> ParseDuration(const std::string& text);
// "0-7,12"; sorted, each once.
absl::StatusOr<std::vector<int32_t>> ParseRanks(const std::string& text);
// "kernel,memcpy,…" as the bits of an Arm request.
struct AskedActivities {
  uint32_t recorded = 0;   // ring::Activities
  uint32_t framework = 0;  // v1::FrameworkActivity: what only PyTorch's profiler records
};
absl::StatusOr<AskedActivities> ParseActivities(const std::string& text);
inline constexpr char kAllActivities[] = "kernel,memcpy,memset,runtime,driver,sync,nvtx,nccl";
// Recorded only where they are asked for.
inline constexpr char kMoreActivities[] = "memory,nccl-channels,nccl-proxy";
// "+500ms" from `now`, or RFC 3339 ("2026-03-01T12:00:00Z", with a fraction or an offset).
absl::StatusOr<JobTime> ParseStartAt(const std::string& text, JobTime now);

// "1.5 s", "20 ms".
std::string FormatDuration(Nanos length);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_VALUES_H_
