// Removes rows from a capture, so that a part of it can be analysed in less memory.
#ifndef LOCKSTEP_CAPTURE_MODEL_KEEP_ROWS_H_
#define LOCKSTEP_CAPTURE_MODEL_KEEP_ROWS_H_

#include <cstdint>
#include <functional>

#include "base/time.h"
#include "capture/model/capture.h"

namespace lockstep::capture {

// The rows of one rank that stay.
struct KeptRows {
  // Receives an index into RankData::activities, in ascending order. Returns true if the activity stays.
  std::function<bool(uint32_t activity)> activity;
  // Calls, waits and memory operations stay that start in it. The end is not part of it.
  HostInterval calls;
  // The same for named ranges.
  HostInterval ranges;
};

// Removes all other rows of a Finish()ed rank, and frees their memory. Collectives stay with their activity.
// The order of the rows stays, and indices between tables are adapted. The window becomes the time of the
// kept calls, activities and ranges. Host frames and the details of kernels and copies stay in whole.
void KeepRows(const KeptRows& kept, RankData& rank);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_MODEL_KEEP_ROWS_H_
