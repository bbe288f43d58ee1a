// Launches that blocked because the device's queue was full: a host that is far ahead goes on only when the
// device got something done.
//
// Nothing records that. Such a launch takes long, the queue is as long then as it ever is, and the launch
// returns when work of the device ends. Without this a host that waits for its device looks slow of itself,
// and no fix on the device would gain anything beyond.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_LAUNCH_QUEUE_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_LAUNCH_QUEUE_H_

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::analysis {

// Nanoseconds on one clock. Of one rank.
struct LaunchCall {
  double start, end;
};
struct QueuedWork {
  double launched;  // start of its launch; minus infinity where unknown
  double end;       // on the device
};

struct BlockedLaunch {
  uint32_t launch;  // into the calls
  uint32_t work;    // what ended and made room
};

// `calls` in start order. By call; none where no launch shows it.
std::vector<BlockedLaunch> FindBlockedLaunches(std::span<const LaunchCall> calls,
                                               std::span<const QueuedWork> work);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_LAUNCH_QUEUE_H_
