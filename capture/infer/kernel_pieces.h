// Divides nameless kernels into pieces: a rank's kernels of one name on one stream, which belong to one
// communicator. For communicator_inference.h. Pure, any thread.
#ifndef LOCKSTEP_CAPTURE_INFER_KERNEL_PIECES_H_
#define LOCKSTEP_CAPTURE_INFER_KERNEL_PIECES_H_

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "capture/infer/common_clock.h"
#include "capture/infer/communicator_inference.h"

namespace lockstep::capture {

struct KernelPiece {
  uint32_t rank;
  uint32_t stream;
  uint64_t signature;
  bool message;
  std::vector<uint32_t> kernels;  // indices into NamelessRank::kernels, ordered by end
  std::vector<KernelInterval>
      intervals;  // of `kernels`, since the capture's first start; on the common clock after AlignHosts()
};

struct KernelPieces {
  std::vector<KernelPiece> list;
  std::map<uint64_t, std::vector<uint32_t>> by_signature;  // indices into list, ordered by rank, then stream
  std::vector<uint64_t> spread_out;  // signatures, ordered by the number of ranks that run them, most first
};

// The intervals are on each host's own clock.
KernelPieces CutPieces(std::span<const NamelessRank> ranks);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_INFER_KERNEL_PIECES_H_
