// Collects the counts of one communicator's members into groups of equal counts.
#ifndef LOCKSTEP_FORMATS_RAS_RAS_COUNTS_H_
#define LOCKSTEP_FORMATS_RAS_RAS_COUNTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "analysis/hang/ras_state.h"

namespace lockstep::formats {

// A job in which more counts of one operation differ is not one that waits. Further groups are left out.
inline constexpr size_t kMostRasGroups = 256;
inline constexpr size_t kMostRasOperations = 64;  // of a communicator
inline constexpr int32_t kLargestRasCommunicator = 1 << 20;
inline constexpr size_t kLongestRasText = 64;

// Returns the operation, which is added if it is missing; null: there are too many.
analysis::RasOperation* RasOperationOf(analysis::RasCommunicator& communicator, std::string_view function);
// Returns the group with this count, which is added if it is missing; null: there are too many.
analysis::RasGroup* RasGroupOf(analysis::RasOperation& operation, uint64_t count);

// Sorts all members. In the text, one group of an operation may be without members: it gets those that no
// other group has, if their number is right.
void CompleteRasGroups(analysis::RasCommunicator& communicator);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_RAS_RAS_COUNTS_H_
