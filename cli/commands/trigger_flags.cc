#include "cli/commands/trigger_flags.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/rpc/status_macros.h"
#include "base/settings/duration.h"
#include "cli/common/values.h"

namespace lockstep::cli {
namespace {

constexpr uint64_t kMostSteps = 1'000'000;
constexpr size_t kMostRangeBytes = 128;  // capacity of the client's message

absl::StatusOr<uint64_t> ParseNumber(const char* flag, const std::string& text, uint64_t least,
                                     uint64_t most) {
  uint64_t number = 0;
  if (!absl::SimpleAtoi(text, &number) || number < least || number > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " ", text, " must be a whole number from ", least, " to ", most));
  }
  return number;
}

absl::StatusOr<v1::Trigger> ParseBegin(const WindowFlags& flags) {
  constexpr uint64_t kLastStep = 999'999'999'999'999'999;
  v1::Trigger trigger;
  if (!flags.start_on_step.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t step,
                              ParseNumber("--start-on-step", flags.start_on_step, 0, kLastStep));
    trigger.set_begin(v1::Trigger::AT_STEP);
    trigger.set_step(step);
  } else if (!flags.start_on_range.empty()) {
    if (flags.start_on_range.size() > kMostRangeBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("--start-on-range: the name must have at most ", kMostRangeBytes, " bytes"));
    }
    trigger.set_begin(v1::Trigger::AT_RANGE);
    trigger.set_range(flags.start_on_range);
  } else if (flags.start_on_profiler_api) {
    trigger.set_begin(v1::Trigger::AT_PROFILER_START);
  } else {
    trigger.set_begin(v1::Trigger::AT_COMMON_STEP);
  }
  return trigger;
}

}  // namespace

absl::StatusOr<Nanos> ParseWindowLength(const std::string& duration) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Nanos length, settings::ParseDuration(duration.empty() ? "2s" : duration,
                                                                        settings::kFlagDuration));
  if (length <= Nanos()) return absl::InvalidArgumentError("--duration must be positive");
  return length;
}

absl::StatusOr<std::optional<v1::Trigger>> ParseTrigger(const WindowFlags& flags) {
  const bool by_time =
      flags.start_on_step.empty() && flags.start_on_range.empty() && !flags.start_on_profiler_api;
  if (by_time && flags.steps.empty()) return std::nullopt;
  LOCKSTEP_ASSIGN_OR_RETURN(v1::Trigger trigger, ParseBegin(flags));
  LOCKSTEP_ASSIGN_OR_RETURN(const Nanos length, ParseWindowLength(flags.duration));
  trigger.set_duration_ns(length.ns());
  LOCKSTEP_ASSIGN_OR_RETURN(const Nanos timeout,
                            settings::ParseDuration(flags.timeout, settings::kFlagDuration));
  if (timeout <= Nanos()) return absl::InvalidArgumentError("--trigger-timeout must be positive");
  trigger.set_timeout_ns(timeout.ns());
  if (!flags.steps.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t steps, ParseNumber("--steps", flags.steps, 1, kMostSteps));
    trigger.set_end(v1::Trigger::AFTER_STEPS);
    trigger.set_steps(steps);
  } else if (flags.duration.empty() && trigger.begin() == v1::Trigger::AT_RANGE) {
    trigger.set_end(v1::Trigger::AT_RANGE_END);
  } else if (flags.duration.empty() && trigger.begin() == v1::Trigger::AT_PROFILER_START) {
    trigger.set_end(v1::Trigger::AT_PROFILER_STOP);
  }
  return trigger;
}

uint32_t WithTrigger(uint32_t asked, const v1::Trigger& trigger) {
  const bool by_ranges =
      trigger.begin() != v1::Trigger::AT_PROFILER_START || trigger.end() == v1::Trigger::AFTER_STEPS;
  const bool by_calls = trigger.begin() == v1::Trigger::AT_PROFILER_START &&
                        (asked & ~ParseActivities("nvtx,nccl").value().recorded) != 0;
  return asked | (by_calls ? ParseActivities("runtime,driver").value().recorded : 0) |
         (by_ranges ? ParseActivities("nvtx").value().recorded : 0);
}

std::string BeginWords(const v1::Trigger& trigger) {
  switch (trigger.begin()) {
    case v1::Trigger::AT_STEP:
      return absl::StrCat("step ", trigger.step());
    case v1::Trigger::AT_RANGE:
      return absl::StrCat("a range \"", trigger.range(), "\"");
    case v1::Trigger::AT_PROFILER_START:
      return "cudaProfilerStart";
    case v1::Trigger::AT_COMMON_STEP:
      return "a step that all ranks begin";
    default:
      return "the start";
  }
}

}  // namespace lockstep::cli
