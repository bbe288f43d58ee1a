// One clock for all hosts of a capture that names no communicators: a first guess for pairing
// (common_clock.h), without a bound. Pure, any thread.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_HOST_ALIGNMENT_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_HOST_ALIGNMENT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "capture/infer/communicator_inference.h"
#include "capture/infer/kernel_pieces.h"

namespace lockstep::align {

// Moves the stays of `pieces`, which are those of `ranks`, onto the clock of the first host that has any.
// Returns the pieces of hosts that share nothing with the others, ascending within a host: they keep their
// own clock.
std::vector<uint32_t> AlignHosts(std::span<const NamelessRank> ranks, KernelPieces& pieces);

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_HOST_ALIGNMENT_H_
