// How much device work was queued, and how fast copies were, over time.
//
// Both are step functions: a level holds from its moment to that of the next one; before the first one it is
// nothing.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_DEVICE_LOAD_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_DEVICE_LOAD_H_

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

// Of one stream: work whose launch has begun and which has not started.
struct QueueLevels {
  uint64_t launches = 0;
  std::vector<Level> levels;
};
// Only of work whose launch was recorded. `work` is of one rank.
std::map<StreamId, QueueLevels> QueuesOf(std::span<const DeviceWork> work);

// Of one kind of copy or set.
struct CopyLevels {
  uint64_t copies = 0;
  uint64_t bytes = 0;
  uint64_t unknown =
      0;       // copies that do not tell their bytes, or took no time; they are in nothing else here
  Nanos busy;  // when any of them ran
  std::vector<Level> levels;  // bytes per second; those at once add up
};
// By the name of the kind. `work` is of `rank`.
std::map<NameId, CopyLevels> CopiesOf(const store::RankData& rank, std::span<const DeviceWork> work);

// At most `most` levels (3 or more) that tell the same story: of each stretch of time the highest one, and
// the last.
std::vector<Level> Thinned(std::vector<Level> levels, size_t most);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_DEVICE_LOAD_H_
