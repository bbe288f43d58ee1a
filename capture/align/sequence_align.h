// Which element of one rank's sequence of collectives is which of another's, when nothing names them.
//
// Windows begin and end at different moments and records get lost, so lengths differ. Equal tokens are
// necessary; among the pairings that leaves, the right one is where the ends keep one constant distance (the
// clocks' offset, up to drift), because nobody leaves a collective long before the others. Needs no
// synchronised clocks. Pure functions, any thread.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_SEQUENCE_ALIGN_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_SEQUENCE_ALIGN_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/time.h"

namespace lockstep::align {

struct SequenceElement {
  uint64_t token;  // equal tokens may be one collective
  HostTime start;
  HostTime end;
  // Nobody leaves long before the others. A broadcast's root may: its ends say little.
  bool ends_together = true;
};

inline constexpr int32_t kUnpaired = -1;

// For each element of `other`, its place in `reference` or kUnpaired. Pairs are in order on both sides.
// `clocks_apart`: how far the two clocks differ at most; Max() where that is unknown.
std::vector<int32_t> AlignSequences(std::span<const SequenceElement> reference,
                                    std::span<const SequenceElement> other,
                                    Nanos clocks_apart = Nanos::Max());

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_SEQUENCE_ALIGN_H_
