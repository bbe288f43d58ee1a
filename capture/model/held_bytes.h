// The memory that a capture occupies.
#ifndef LOCKSTEP_CAPTURE_MODEL_HELD_BYTES_H_
#define LOCKSTEP_CAPTURE_MODEL_HELD_BYTES_H_

#include <cstdint>

#include "capture/model/capture.h"

namespace lockstep::capture {

struct HeldBytes {
  uint64_t rows = 0;   // of the tables that KeepRows() shortens
  uint64_t other = 0;  // of host frames and details, which stay in whole
};

// Return a lower limit: small objects and the allocator's own memory are not counted.
HeldBytes HeldBytesOf(const RankData& rank);
HeldBytes HeldBytesOf(const Capture& capture);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_MODEL_HELD_BYTES_H_
