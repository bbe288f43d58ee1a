// Checks what every reader promises of a capture: an index is inside its table, and nothing ends before it
// starts. For fuzzers, which stop at the first violation.
#ifndef LOCKSTEP_CAPTURE_MODEL_CONSISTENCY_FIXTURE_H_
#define LOCKSTEP_CAPTURE_MODEL_CONSISTENCY_FIXTURE_H_

#include <cstdint>
#include <cstdlib>

#include "capture/model/capture.h"

namespace lockstep::capture {

// kMayBeMissing: a record of a collective may have no kernel, as in a file whose kernels were lost.
enum class CollectiveKernels : uint8_t { kPresent, kMayBeMissing };

// `capture` has been finished (Finish). Calls std::abort if a promise is broken.
inline void AbortIfInconsistent(const Capture& capture,
                                CollectiveKernels kernels = CollectiveKernels::kPresent) {
  for (const RankData& rank : capture.ranks) {
    if (rank.host != kNone && rank.host >= capture.hosts.size()) std::abort();
    for (const DeviceActivity& a : rank.activities) {
      if (a.end < a.start || a.name.value() >= capture.strings.size()) std::abort();
      if (a.collective != kNone && a.collective >= rank.collectives.size()) std::abort();
    }
    for (const Collective& c : rank.collectives) {
      const bool missing = c.activity == kNone && kernels == CollectiveKernels::kMayBeMissing;
      if (!missing && c.activity >= rank.activities.size()) std::abort();
      if (c.group >= capture.groups.size()) std::abort();
    }
  }
}

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_MODEL_CONSISTENCY_FIXTURE_H_
