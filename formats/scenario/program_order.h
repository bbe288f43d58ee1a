// The order in which scenario::ToProgram writes the device work of a rank.
#ifndef LOCKSTEP_FORMATS_SCENARIO_PROGRAM_ORDER_H_
#define LOCKSTEP_FORMATS_SCENARIO_PROGRAM_ORDER_H_

#include <cstdint>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::formats {

// Returns the place of each activity in its rank's program: the order of the launches, or of the starts for
// work without a recorded launch. Kernels on different streams may start in another order.
std::vector<uint32_t> ProgramOrder(const capture::RankData& rank);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_SCENARIO_PROGRAM_ORDER_H_
