// Reduces the memory of a rank's tables without a change of their content.
#ifndef LOCKSTEP_CAPTURE_MODEL_COMPACT_H_
#define LOCKSTEP_CAPTURE_MODEL_COMPACT_H_

#include "capture/model/capture.h"

namespace lockstep::capture {

// Kernels with equal details share one row of them, and tables keep no memory for further rows. Idempotent.
void Compact(RankData& rank);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_MODEL_COMPACT_H_
