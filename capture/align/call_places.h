// Places of a rank's kernels in their channel, lost ones included.
//
// A process numbers its runtime calls, those that launch kernels whose records were lost too. A training step
// makes the same calls each time, so from the number of a kernel's launch follows which of the step's kernels
// it is, and where one is missing. Pure, any thread.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_CALL_PLACES_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_CALL_PLACES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::align {

class CallPlaces {
 public:
  // Finds how many calls a step makes, by what the rank runs seldom and regularly. Nothing of `rank` is kept.
  explicit CallPlaces(const store::RankData& rank);

  // Of these collectives, all of one channel and in order of start. nullopt: calls are not numbered, or steps
  // differ.
  std::optional<std::vector<int64_t>> Of(const store::RankData& rank,
                                         std::span<const uint32_t> collectives) const;

  // Whether records of the rank were lost, as far as its launches or its source say.
  static bool AnyLost(const store::RankData& rank) { return !rank.losses.empty(); }

 private:
  std::vector<int64_t>
      begins_;  // numbers of the call that begins each step, ascending; those that were lost are put back
  int64_t calls_ = 0;  // of a step
};

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_CALL_PLACES_H_
