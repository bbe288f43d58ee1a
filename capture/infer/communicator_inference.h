// Communicators of a capture that names none: who meets whom, going by kernel names and times alone.
//
// Ranks of one communicator run the same operations and leave each of them together, whenever they came;
// ranks of different communicators that do the same work leave apart. So channels (a rank's kernels of one
// name on one stream) are joined whose ends coincide much better than their starts. Clocks need not agree:
// hosts are first put on one clock by the channels whose ends keep the steadiest distance. Layouts (blocks of
// equal size, contiguous or strided) fill what noise left open. docs/analysis.md. Pure functions, any thread.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_COMMUNICATOR_INFERENCE_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_COMMUNICATOR_INFERENCE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/time.h"

namespace lockstep::align {

// A communication kernel of which only name, place and times are known.
struct NamelessKernel {
  HostTime start;
  HostTime end;
  uint32_t stream = 0;
  uint64_t token = 0;    // equal where it may be the same operation: name without template noise, and grid
  bool message = false;  // perhaps between two ranks only (SendRecv)
};

struct NamelessRank {
  uint32_t host = 0;                    // ranks of one host share its clock
  std::vector<NamelessKernel> kernels;  // in order of start
};

struct InferredCommunicator {
  std::vector<uint32_t> ranks;  // places in the input, ascending; at least two
  std::vector<std::vector<uint32_t>>
      kernels;   // of each of `ranks`: places in NamelessRank::kernels, ascending
  Nanos spread;  // how far apart its members' ends typically are
  // The best partner outside lies this many times further apart; 0: there is none to mistake a member for.
  double margin = 0;
};

// Messages from one rank to another.
struct InferredMessages {
  uint32_t sender;
  uint32_t receiver;
  std::vector<uint32_t> sends;     // places in the sender's kernels, ascending
  std::vector<uint32_t> receives;  // places in the receiver's kernels, ascending
};

struct InferredCommunicators {
  std::vector<InferredCommunicator> communicators;  // by their first member's first kernel
  std::vector<InferredMessages> messages;
};

// A kernel is in at most one of the results. What fits nowhere is in none.
InferredCommunicators InferCommunicators(std::span<const NamelessRank> ranks);

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_COMMUNICATOR_INFERENCE_H_
