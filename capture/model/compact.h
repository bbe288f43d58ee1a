// Reduces the memory of a rank's tables without a change of their content.
#ifndef LOCKSTEP_CAPTURE_MODEL_COMPACT_H_
#define LOCKSTEP_CAPTURE_MODEL_COMPACT_H_

#include <vector>

#include "capture/model/capture.h"

namespace lockstep::capture {

// Kernels with equal details share one row of them. `rows` keep the order in which kernels first use them.
// Only changed rows are written. Idempotent.
void ShareDetails(std::vector<DeviceActivity>& activities, std::vector<KernelDetail>& rows);

// Kernels with equal details share one row of them, and tables keep no memory for further rows. Idempotent.
void Compact(RankData& rank);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_MODEL_COMPACT_H_
