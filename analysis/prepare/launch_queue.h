// Finds launches that blocked because the device's queue was full. A host that is far ahead then continues
// only when device work ends.
//
// No record says so. Such a launch takes long, the queue is about as long as it ever is, and the launch
// returns when device work ends. Without this dependency, a host that waits for its device looks slow by
// itself, and a fix on the device seems to gain nothing.
#ifndef LOCKSTEP_ANALYSIS_PREPARE_LAUNCH_QUEUE_H_
#define LOCKSTEP_ANALYSIS_PREPARE_LAUNCH_QUEUE_H_

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::analysis {

// A launch of one rank. Times are nanoseconds on one clock.
struct LaunchCall {
  double start, end;
};
struct QueuedWork {
  double launched;  // start of its launch; minus infinity if unknown
  double end;       // on the device
};

struct BlockedLaunch {
  uint32_t launch;  // index into the calls
  uint32_t work;    // index of the work that ended and made room
};

// `calls` are ordered by start. Returns blocked launches in the same order; empty if no launch shows
// blocking.
std::vector<BlockedLaunch> FindBlockedLaunches(std::span<const LaunchCall> calls,
                                               std::span<const QueuedWork> work);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_PREPARE_LAUNCH_QUEUE_H_
