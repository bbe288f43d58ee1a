// Detects CUDA graphs that ran without records. CUPTI sees a graph's kernels only if it was set up before the
// graph was instantiated.
#ifndef LOCKSTEP_CAPTURE_STORE_UNRECORDED_GRAPHS_H_
#define LOCKSTEP_CAPTURE_STORE_UNRECORDED_GRAPHS_H_

#include <cstdint>

#include "capture/model/capture.h"

namespace lockstep::capture {

// Counts launches of CUDA graphs in `rank`'s calls that must have run but left no record. Either the device
// ran work that was launched later, or the launch was long enough before the window's end. 0: there is no
// such launch, or no evidence. Tables may be in any order.
uint64_t UnrecordedGraphLaunches(const RankData& rank);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_STORE_UNRECORDED_GRAPHS_H_
