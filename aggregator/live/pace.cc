#include "aggregator/live/pace.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "analysis/prepare/steps.h"

namespace lockstep::live {
namespace {

// Of the steps that a window holds, the first and the last are cut.
constexpr double kStepsWanted = static_cast<double>(analysis::kLeastSteps) + 2;

}  // namespace

absl::StatusOr<Pace> CheckPace(Nanos every, Nanos window) {
  if (every < kLeastEvery || every > kLongestEvery) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "--every is %.3g s, and it can be 1 s to 1 h: shorter ones would hold up the job", every.seconds()));
  }
  if (window < kLeastWindow || window > kLongestWindow) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--window is %.3g s, and it can be 20 ms to 10 s", window.seconds()));
  }
  if (window * 2 > every) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--window %.3g s of --every %.3g s would record more than half of the time: give "
                        "--every %.3g s or more, or `lockstep trace` once",
                        window.seconds(), every.seconds(), (window * 2).seconds()));
  }
  return Pace{every, window};
}

Pace MostFrequent(const std::vector<Pace>& asked) {
  return *std::min_element(asked.begin(), asked.end(), [](const Pace& a, const Pace& b) {
    return std::pair(a.every, a.window) < std::pair(b.every, b.window);
  });
}

Pace NextPace(const Pace& asked, const Pace& now, const StepsSeen& seen) {
  const bool enough = seen.whole >= analysis::kLeastSteps;
  // Steps that nothing marks do not come to light in a longer window either.
  const bool marked = seen.whole + seen.partial > 0;
  Nanos window = now.window;
  if (seen.length_ns && *seen.length_ns > 0) {
    const auto wanted = Nanos(
        std::llround(std::min(*seen.length_ns * kStepsWanted, static_cast<double>(kLongestWindow.ns()))));
    // Shorter again only where that is well enough: a window that changes each time makes samples hard to
    // compare.
    if (!enough || wanted * 2 < now.window) window = std::max(wanted, asked.window);
  }
  if (!enough && marked) window = std::max(window, now.window * 2);
  window = std::min(window, kLongestWindow);
  if (window <= asked.window) return asked;
  const double share = asked.window.seconds() / asked.every.seconds();
  return {std::max(asked.every, Nanos(std::llround(static_cast<double>(window.ns()) / share))), window};
}

}  // namespace lockstep::live
