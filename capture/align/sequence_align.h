// Aligns two ranks' sequences of collectives that no number identifies.
//
// Windows begin and end at different moments and records get lost, so the lengths differ. Paired elements
// need equal signatures. Among the pairings that remain, the right one keeps a constant distance between the
// ends: the clocks' offset, up to drift. The reason is that no rank leaves a collective long before the
// others. Needs no synchronised clocks. Pure functions, any thread.
#ifndef LOCKSTEP_CAPTURE_ALIGN_SEQUENCE_ALIGN_H_
#define LOCKSTEP_CAPTURE_ALIGN_SEQUENCE_ALIGN_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/time.h"

namespace lockstep::capture {

struct SequenceElement {
  uint64_t signature;  // equal for elements that may be one collective
  HostTime start;
  HostTime end;
  // True if no rank leaves long before the others. A broadcast's root may leave early, so its ends say
  // little.
  bool ends_together = true;
};

inline constexpr int32_t kUnpaired = -1;

// Returns for each element of `other` its index in `reference`, or kUnpaired. Pairs are in order on both
// sides. `clocks_apart`: the largest difference of the two clocks; Max() if it is unknown.
std::vector<int32_t> AlignSequences(std::span<const SequenceElement> reference,
                                    std::span<const SequenceElement> other,
                                    Nanos clocks_apart = Nanos::Max());

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_ALIGN_SEQUENCE_ALIGN_H_
