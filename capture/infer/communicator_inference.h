// Infers the communicators of a capture that names none, from kernel names and times alone.
//
// Ranks of one communicator run the same operations and leave each of them together, whenever they came.
// Ranks of different communicators that do the same work leave at unrelated times. So channels (a rank's
// kernels of one name on one stream) join if their ends coincide much better than their starts. Clocks need
// not agree: the channels whose ends keep the steadiest distance first put all hosts on one clock. Layouts
// (blocks of equal size, contiguous or strided) decide where noise leaves doubt. See
// docs/analysis/inference.md. Pure functions, any thread.
#ifndef LOCKSTEP_CAPTURE_INFER_COMMUNICATOR_INFERENCE_H_
#define LOCKSTEP_CAPTURE_INFER_COMMUNICATOR_INFERENCE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/time.h"

namespace lockstep::capture {

// A communication kernel of which only the name, the stream and the times are known.
struct NamelessKernel {
  HostTime start;
  HostTime end;
  uint32_t stream = 0;
  uint64_t signature =
      0;  // equal for kernels that may be one operation: grid, and name without template arguments
  bool message = false;  // may be between two ranks only (SendRecv)
};

struct NamelessRank {
  uint32_t host = 0;                    // ranks of one host share its clock
  std::vector<NamelessKernel> kernels;  // ordered by start
};

struct InferredCommunicator {
  std::vector<uint32_t> ranks;  // indices into the input, ascending; at least two
  std::vector<std::vector<uint32_t>>
      kernels;   // of each of `ranks`: indices into NamelessRank::kernels, ascending
  Nanos spread;  // typical distance between its members' ends
  // The nearest channel outside lies this many times further apart. 0: no channel could be mistaken for a
  // member.
  double margin = 0;
};

// Messages from one rank to another.
struct InferredMessages {
  uint32_t sender;
  uint32_t receiver;
  std::vector<uint32_t> sends;     // indices into the sender's kernels, ascending
  std::vector<uint32_t> receives;  // indices into the receiver's kernels, ascending
};

struct InferredCommunicators {
  std::vector<InferredCommunicator> communicators;  // ordered by their first member's first kernel
  std::vector<InferredMessages> messages;
};

// A kernel is in at most one of the results. A kernel that fits nowhere is in none.
InferredCommunicators InferCommunicators(std::span<const NamelessRank> ranks);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_INFER_COMMUNICATOR_INFERENCE_H_
