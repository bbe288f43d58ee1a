// Finds after how many operations a sequence repeats itself.
#ifndef LOCKSTEP_BASE_SEQUENCE_PERIOD_H_
#define LOCKSTEP_BASE_SEQUENCE_PERIOD_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/time.h"

namespace lockstep {

// `symbols` identify the operations, and `gaps` are the times before each without an operation. Both have the
// same length. The period is the smallest number of operations after which nearly all symbols come again. If
// several numbers do that, as with equal operations, the gaps decide: those before the same place of each
// period are alike. Returns 0 if there are not three periods.
size_t SequencePeriod(std::span<const uint64_t> symbols, std::span<const Nanos> gaps);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_SEQUENCE_PERIOD_H_
