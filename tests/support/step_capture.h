// Large jobs in memory without a simulator: device units only, about 40 per rank and step, as an always-on
// tier would send them.
#ifndef LOCKSTEP_TESTS_SUPPORT_STEP_CAPTURE_H_
#define LOCKSTEP_TESTS_SUPPORT_STEP_CAPTURE_H_

#include <cstdint>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::tests {

struct StepCaptureShape {
  uint32_t data_parallel = 2, tensor_parallel = 8, pipeline_parallel = 4;
  uint32_t steps = 1;
  uint32_t ranks_per_host = 8;
  uint64_t seed = 1;
  double noise = 0.01;
  // Their kernels take so many times as long.
  std::vector<uint32_t> slow_ranks;
  double slow_factor = 1;
  uint32_t ranks() const { return data_parallel * tensor_parallel * pipeline_parallel; }
};

// Rank = (stage * data_parallel + replica) * tensor_parallel + shard. Finish()ed; steps are marked when there
// are several.
store::Capture StepCapture(const StepCaptureShape& shape);

}  // namespace lockstep::tests

#endif  // LOCKSTEP_TESTS_SUPPORT_STEP_CAPTURE_H_
