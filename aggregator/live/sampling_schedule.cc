#include "aggregator/live/sampling_schedule.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "analysis/prepare/steps.h"

namespace lockstep::aggregator {
namespace {

// The first and the last step of a window are incomplete, hence two more.
constexpr double kStepsWanted = static_cast<double>(analysis::kLeastSteps) + 2;

}  // namespace

absl::StatusOr<SamplingSchedule> CheckSchedule(Nanos every, Nanos window) {
  if (every < kLeastEvery || every > kLongestEvery) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--every is %.3g s; it must be 1 s to 1 h", every.seconds()));
  }
  if (window < kLeastWindow || window > kLongestWindow) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--window is %.3g s; it must be 20 ms to 10 s", window.seconds()));
  }
  if (window * 2 > every) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--window %.3g s of --every %.3g s would record more than half of the time: give "
                        "--every %.3g s or more, or `lockstep trace` once",
                        window.seconds(), every.seconds(), (window * 2).seconds()));
  }
  return SamplingSchedule{every, window};
}

SamplingSchedule MostFrequent(const std::vector<SamplingSchedule>& requested) {
  return *std::min_element(requested.begin(), requested.end(),
                           [](const SamplingSchedule& a, const SamplingSchedule& b) {
                             return std::pair(a.every, a.window) < std::pair(b.every, b.window);
                           });
}

SamplingSchedule NextSchedule(const SamplingSchedule& requested, const SamplingSchedule& now,
                              const StepsSeen& seen) {
  const bool enough = seen.whole >= analysis::kLeastSteps;
  // Without step marks a longer window does not find steps either.
  const bool marked = seen.whole + seen.partial > 0;
  Nanos window = now.window;
  if (seen.length_ns && *seen.length_ns > 0) {
    const auto wanted = Nanos(
        std::llround(std::min(*seen.length_ns * kStepsWanted, static_cast<double>(kLongestWindow.ns()))));
    // The window shrinks only if it is more than twice too long, because samples with changing windows are
    // hard to compare.
    if (!enough || wanted * 2 < now.window) window = std::max(wanted, requested.window);
  }
  if (!enough && marked) window = std::max(window, now.window * 2);
  window = std::min(window, kLongestWindow);
  if (window <= requested.window) return requested;
  const double share = requested.window.seconds() / requested.every.seconds();
  return {std::max(requested.every, Nanos(std::llround(static_cast<double>(window.ns()) / share))), window};
}

}  // namespace lockstep::aggregator
