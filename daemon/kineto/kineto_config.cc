#include "daemon/kineto/kineto_config.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/rpc/status_macros.h"
#include "lockstep/v1/common.pb.h"
#include "wire/ring/handshake.h"

namespace lockstep::daemon {
namespace {

constexpr int64_t kNanosPerMilli = 1'000'000;
constexpr size_t kLongestFolder = 512;
constexpr uint64_t kMostIterations = 2'000'000'000;  // libkineto stores them as a signed 32-bit number

bool IsSession(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_';
  });
}

// A value must not contain a character that ends it. It must not contain a second '=' either: libkineto then
// drops the whole request.
bool IsFolder(const std::string& text) {
  return !text.empty() && text[0] == '/' && text.size() <= kLongestFolder && !absl::StrContains(text, "..") &&
         std::none_of(text.begin(), text.end(),
                      [](unsigned char c) { return c <= ' ' || c == '=' || c == '#' || c == 0x7F; });
}

std::vector<const char*> ActivityTypes(const KinetoTraceRequest& request) {
  static constexpr struct {
    uint32_t bit;
    const char* type;
  } kTypes[] = {{ring::kActivityKernel, "kernel"},        {ring::kActivityMemcpy, "gpu_memcpy"},
                {ring::kActivityMemset, "gpu_memset"},    {ring::kActivityRuntime, "cuda_runtime"},
                {ring::kActivityDriver, "cuda_driver"},   {ring::kActivitySync, "cuda_sync"},
                {ring::kActivityNvtx, "user_annotation"}, {ring::kActivityNvtx, "gpu_user_annotation"}};
  std::vector<const char*> types;
  for (const auto& type : kTypes) {
    if ((request.activities & type.bit) != 0) types.push_back(type.type);
  }
  // NCCL's metadata is attached to the operator that called it. Collectives therefore require the records of
  // all operators.
  const bool operators = (request.activities & ring::kActivityNccl) != 0 || request.framework != 0;
  if (operators) types.push_back("cpu_op");
  if ((request.framework & v1::FRAMEWORK_PYTHON) != 0) types.push_back("python_function");
  types.push_back("overhead");
  types.push_back("external_correlation");
  return types;
}

// Rounds the window outwards to whole milliseconds.
absl::StatusOr<std::string> WindowLines(const HostInterval& window) {
  if (window.length() <= Nanos()) return absl::InvalidArgumentError("the window is empty");
  const int64_t start = window.start.ns() / kNanosPerMilli;
  const int64_t end = (window.end.ns() + kNanosPerMilli - 1) / kNanosPerMilli;
  return absl::StrCat("PROFILE_START_TIME=", start, "\n", "ACTIVITIES_DURATION_MSECS=", end - start, "\n",
                      "ACTIVITIES_WARMUP_PERIOD_SECS=", kKinetoWarmup.ns() / 1'000'000'000, "\n");
}

absl::StatusOr<std::string> IterationLines(const KinetoIterations& iterations) {
  if (iterations.count == 0 || iterations.multiple == 0 || iterations.count > kMostIterations ||
      std::max(iterations.first.value_or(0), iterations.multiple) > kMostIterations) {
    return absl::InvalidArgumentError(
        absl::StrCat("PyTorch's profiler counts iterations up to ", kMostIterations));
  }
  std::string lines = absl::StrCat("PROFILE_START_ITERATION=", iterations.first.value_or(0), "\n");
  if (!iterations.first)
    absl::StrAppend(&lines, "PROFILE_START_ITERATION_ROUNDUP=", iterations.multiple, "\n");
  // The duration must be 0. Otherwise a profiler whose job counts no iterations would record for that long,
  // at an arbitrary time.
  absl::StrAppend(&lines, "ACTIVITIES_ITERATIONS=", iterations.count, "\n",
                  "ACTIVITIES_WARMUP_ITERATIONS=1\n", "ACTIVITIES_DURATION_MSECS=0\n");
  return lines;
}

}  // namespace

absl::StatusOr<std::string> MakeKinetoConfig(const KinetoTraceRequest& request) {
  if (!IsSession(request.session)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", request.session, "\" cannot be part of a file's name"));
  }
  if (!IsFolder(request.folder)) {
    return absl::InvalidArgumentError(
        absl::StrCat("libkineto does not accept the folder \"", request.folder,
                     "\": set KINETO_ONDEMAND_TRACE_DIR to an absolute path without spaces, '=' and '#'"));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string when, request.iterations ? IterationLines(*request.iterations)
                                                                       : WindowLines(request.window));
  std::string config = absl::StrCat(
      "ACTIVITIES_LOG_FILE=", request.folder, "/lockstep_", request.session, ".json\n", when,
      "ACTIVITY_TYPES=", absl::StrJoin(ActivityTypes(request), ","), "\n",
      "REQUEST_TRACE_ID=", request.session, "\n", "REQUEST_GROUP_TRACE_ID=", request.session, "\n");
  const std::pair<bool, const char*> switches[] = {
      {(request.framework & v1::FRAMEWORK_SHAPES) != 0, "PROFILE_REPORT_INPUT_SHAPES"},
      {(request.framework & v1::FRAMEWORK_PYTHON) != 0, "PROFILE_WITH_STACK"},
      {(request.framework & v1::FRAMEWORK_MODULES) != 0, "PROFILE_WITH_MODULES"},
      {(request.activities & ring::kActivityMemory) != 0, "PROFILE_PROFILE_MEMORY"}};
  for (const auto& [on, key] : switches) {
    if (on) absl::StrAppend(&config, key, "=true\n");
  }
  return config;
}

std::string KinetoFileName(const std::string& session, int32_t client_pid) {
  return absl::StrCat("lockstep_", session, "_", client_pid, ".json");
}

std::string KinetoFallbackName(int32_t client_pid) {
  return absl::StrCat("libkineto_activities_", client_pid, ".json");
}

}  // namespace lockstep::daemon
