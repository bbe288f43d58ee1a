// Parses values on the command line: lists of ranks, activities.
#ifndef LOCKSTEP_CLI_COMMON_VALUES_H_
#define LOCKSTEP_CLI_COMMON_VALUES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace lockstep::cli {

// Parses for example "0-7,12". The result is sorted without duplicates.
absl::StatusOr<std::vector<int32_t>> ParseRanks(const std::string& text);
// Activities such as "kernel,memcpy,…" as the bits of an Arm request.
struct RequestedActivities {
  uint32_t recorded = 0;   // ring::Activities
  uint32_t framework = 0;  // v1::FrameworkActivity bits: recorded only by PyTorch's profiler
};
absl::StatusOr<RequestedActivities> ParseActivities(const std::string& text);
inline constexpr char kAllActivities[] = "kernel,memcpy,memset,runtime,driver,sync,nvtx,nccl";
// Recorded only on request.
inline constexpr char kMoreActivities[] = "memory,nccl-channels,nccl-proxy";
// Returns all activities.
std::vector<std::string> ActivityNames();
// Parses "+500ms" relative to `now`, or RFC 3339 ("2026-03-01T12:00:00Z", with a fraction or an offset).
absl::StatusOr<JobTime> ParseStartAt(const std::string& text, JobTime now);

// Returns for example "1.5 s" or "20 ms".
std::string FormatDuration(Nanos length);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMON_VALUES_H_
