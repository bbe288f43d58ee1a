// Queued device work, and the rate of copies, over time.
//
// Both are step functions. A level holds from its moment to the moment of the next one. Before the first
// level, the value is 0.
#ifndef LOCKSTEP_ANALYSIS_TIME_DEVICE_LOAD_H_
#define LOCKSTEP_ANALYSIS_TIME_DEVICE_LOAD_H_

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "analysis/prepare/launches.h"
#include "capture/model/capture.h"

namespace lockstep::analysis {

struct Level {
  HostTime at;
  double value = 0;
};

// Queue of one stream: work whose launch has begun and that has not started.
struct QueueLevels {
  uint64_t launches = 0;
  std::vector<Level> levels;
};
// Counts only work with a recorded launch. `work` is of one rank.
std::map<StreamId, QueueLevels> QueuesOf(std::span<const DeviceWork> work);

// Rates of one kind of copy or set.
struct CopyLevels {
  uint64_t copies = 0;
  uint64_t bytes = 0;
  uint64_t unknown = 0;  // copies without known bytes or duration; no other field but `copies` counts them
  Nanos busy;            // time in which at least one of them ran
  std::vector<Level> levels;  // bytes per second; concurrent copies add up
};
// Returns rates by the name of the kind. `work` is of `rank`.
std::map<NameId, CopyLevels> CopiesOf(const capture::RankData& rank, std::span<const DeviceWork> work);

// Reduces a series to at most `most` levels (3 or more). Keeps the highest level of each stretch of time, and
// the last level.
std::vector<Level> Downsampled(std::vector<Level> levels, size_t most);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_TIME_DEVICE_LOAD_H_
