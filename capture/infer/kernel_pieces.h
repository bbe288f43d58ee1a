// Nameless kernels cut into pieces: a rank's kernels of one name on one stream, which belong together whoever
// they are shared with. For communicator_inference.h. Pure, any thread.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_KERNEL_PIECES_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_KERNEL_PIECES_H_

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "capture/infer/common_clock.h"
#include "capture/infer/communicator_inference.h"

namespace lockstep::align {

struct KernelPiece {
  uint32_t rank;
  uint32_t stream;
  uint64_t token;
  bool message;
  std::vector<uint32_t> kernels;  // places in NamelessRank::kernels, in order of end
  std::vector<Stay>
      stays;  // of `kernels`, since the capture's first start; on the common clock once AlignHosts() was here
};

struct KernelPieces {
  std::vector<KernelPiece> list;
  std::map<uint64_t, std::vector<uint32_t>> by_token;  // into list, in order of rank, then stream
  std::vector<uint64_t> spread_out;                    // tokens, those that most ranks run first
};

// Stays are on each host's own clock.
KernelPieces CutPieces(std::span<const NamelessRank> ranks);

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_KERNEL_PIECES_H_
