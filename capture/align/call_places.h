// Places: the index of each kernel among those of its channel, lost ones included.
//
// A process numbers its runtime calls, including those that launched kernels whose records were lost. Every
// training step makes the same calls. So the number of a kernel's launch call shows which of the step's
// kernels it is, and where one is missing. Pure; any thread.
#ifndef LOCKSTEP_CAPTURE_ALIGN_CALL_PLACES_H_
#define LOCKSTEP_CAPTURE_ALIGN_CALL_PLACES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::capture {

class CallPlaces {
 public:
  // Finds the number of calls per step from kernels that the rank launches rarely and regularly. Keeps no
  // reference to `rank`.
  explicit CallPlaces(const capture::RankData& rank);

  // Places of `collectives`, which are all of one channel and ordered by start. nullopt: the calls have no
  // numbers, or the steps differ.
  std::optional<std::vector<int64_t>> Of(const capture::RankData& rank,
                                         std::span<const uint32_t> collectives) const;

  // True if lost records of the rank are known, from its source or from its launches.
  static bool AnyLost(const capture::RankData& rank) { return !rank.losses.empty(); }

 private:
  std::vector<int64_t>
      begins_;         // numbers of the calls that begin the steps, ascending; lost ones are interpolated
  int64_t calls_ = 0;  // calls per step
};

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_ALIGN_CALL_PLACES_H_
