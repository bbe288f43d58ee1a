// How often a running job is sampled, and for how long. Pure.
#ifndef LOCKSTEP_AGGREGATOR_LIVE_PACE_H_
#define LOCKSTEP_AGGREGATOR_LIVE_PACE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace lockstep::live {

struct Pace {
  Nanos every;   // from one sample's begin to the next one's
  Nanos window;  // of each
  bool operator==(const Pace&) const = default;
};

inline constexpr Nanos kLeastEvery = Nanos::Seconds(1);
inline constexpr Nanos kLongestEvery = Nanos::Seconds(3600);
inline constexpr Nanos kLeastWindow = Nanos::Millis(20);
inline constexpr Nanos kLongestWindow = Nanos::Seconds(10);

// kInvalidArgument says which bound is broken. At most half of the time is sampled, whoever asks.
absl::StatusOr<Pace> CheckPace(Nanos every, Nanos window);

// Of several who watch one job: the most frequent, so that nobody's screen is older than they asked for.
Pace MostFrequent(const std::vector<Pace>& asked);

// What a sample told of the job's steps.
struct StepsSeen {
  uint32_t whole = 0;    // recorded whole on all ranks
  uint32_t partial = 0;  // seen, and not whole
  std::optional<double> length_ns;
};

// The pace of the next sample. Where too few steps fit into a window for a verdict it gets longer, up to
// kLongestWindow, and samples rarer, so that the part of the time that is sampled stays what was asked for.
// `now` is the pace of the sample that was just taken.
Pace NextPace(const Pace& asked, const Pace& now, const StepsSeen& seen);

}  // namespace lockstep::live

#endif  // LOCKSTEP_AGGREGATOR_LIVE_PACE_H_
