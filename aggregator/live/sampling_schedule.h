// Decides how often and for how long a running job is sampled. Pure functions.
#ifndef LOCKSTEP_AGGREGATOR_LIVE_SAMPLING_SCHEDULE_H_
#define LOCKSTEP_AGGREGATOR_LIVE_SAMPLING_SCHEDULE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace lockstep::aggregator {

struct SamplingSchedule {
  Nanos every;   // from the begin of one sample to the next
  Nanos window;  // length of each sample
  bool operator==(const SamplingSchedule&) const = default;
};

inline constexpr Nanos kLeastEvery = Nanos::Seconds(1);
inline constexpr Nanos kLongestEvery = Nanos::Seconds(3600);
inline constexpr Nanos kLeastWindow = Nanos::Millis(20);
inline constexpr Nanos kLongestWindow = Nanos::Seconds(10);

// kInvalidArgument: the error names the violated limit. At most half of the time may be sampled.
absl::StatusOr<SamplingSchedule> CheckSchedule(Nanos every, Nanos window);

// Of several watchers' schedules returns the most frequent, so that every watcher gets data at least as often
// as requested.
SamplingSchedule MostFrequent(const std::vector<SamplingSchedule>& requested);

// Results of a sample about the job's steps.
struct StepsSeen {
  uint32_t whole = 0;    // recorded completely on all ranks
  uint32_t partial = 0;  // recorded, but not completely
  std::optional<double> length_ns;
};

// Returns the schedule of the next sample; `now` is that of the last one. If a window contains too few steps
// for a verdict, it is lengthened, up to kLongestWindow. Samples then become rarer, so that the sampled share
// of the time stays as requested.
SamplingSchedule NextSchedule(const SamplingSchedule& requested, const SamplingSchedule& now,
                              const StepsSeen& seen);

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_LIVE_SAMPLING_SCHEDULE_H_
