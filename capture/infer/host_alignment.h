// Puts all hosts of a capture without named communicators on one clock. The result is a first guess for
// pairing (common_clock.h), without a bound. Pure, any thread.
#ifndef LOCKSTEP_CAPTURE_INFER_HOST_ALIGNMENT_H_
#define LOCKSTEP_CAPTURE_INFER_HOST_ALIGNMENT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "capture/infer/communicator_inference.h"
#include "capture/infer/kernel_pieces.h"

namespace lockstep::capture {

// Moves the intervals of `pieces`, which are those of `ranks`, to the clock of the first host that has any.
// Returns the pieces of hosts that share nothing with the others, ascending within a host. These pieces keep
// their own clock.
std::vector<uint32_t> AlignHosts(std::span<const NamelessRank> ranks, KernelPieces& pieces);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_INFER_HOST_ALIGNMENT_H_
