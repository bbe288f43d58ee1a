// Time that all ranks lose alike, so that no rank holds the others back: waiting for input, late launches,
// communication that nothing hides, the bubble of a pipeline, copies.
#ifndef LOCKSTEP_ANALYSIS_EXPLAIN_SHARED_LOSSES_H_
#define LOCKSTEP_ANALYSIS_EXPLAIN_SHARED_LOSSES_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "analysis/explain/diagnosis.h"
#include "analysis/replay/graph.h"

namespace lockstep::analysis {

enum class SharedLossKind : uint8_t {
  kInput,            // the device idles while the host is in the data loader
  kHostLaunch,       // the device idles while the host works, and its next work is not launched yet
  kExposedTransfer,  // transfers without compute beside them
  kExposedWait,      // waiting in collectives, beyond what stragglers and chance cost
  kPipelineBubble,   // the same in a job with pipeline stages
  kCopies,           // copies without a kernel beside them
  kIdleOther,        // the device idles, and the records do not show why
};

// The name in report.json: "input", "host_launch", …
std::string_view SharedLossKindName(SharedLossKind kind);

struct SharedLoss {
  SharedLossKind kind;
  double lost_ns = 0;   // per step
  double share = 0;     // of the step
  double least_ns = 0;  // per step, over the ranks
  double most_ns = 0;
  double silent_ns = 0;  // kIdleOther: the part in which the host did nothing that was recorded
};

// Losses below this share of the step are left out.
inline constexpr double kLeastSharedLoss = 0.01;

// Returns the losses, the largest first. A rank's loss is its mean per step, and the job's loss is the median
// over the ranks, because a single rank that loses more is a straggler. Waiting is the exception: it is the
// median over the ranks, or in a pipeline the mean over its ranks, minus `diagnosis.lost_ns`, which the
// stragglers and chance cost. It is left out if that is unknown. Returns nothing if a rank ran CUDA graphs
// without kernel records, or has records of communication only, because its device then only seems to idle.
// Pure.
std::vector<SharedLoss> FindSharedLosses(const GraphInput& input, const Diagnosis& diagnosis);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_EXPLAIN_SHARED_LOSSES_H_
