// Large captures in memory without a simulator. They have only device units, about 40 per rank and step, as
// from continuous low-overhead monitoring.
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
  // Kernels of these ranks take `slow_factor` times as long.
  std::vector<uint32_t> slow_ranks;
  double slow_factor = 1;
  uint32_t ranks() const { return data_parallel * tensor_parallel * pipeline_parallel; }
};

// The rank is (stage * data_parallel + replica) * tensor_parallel + shard. Calls capture::Finish(). Steps are
// marked if there are several.
capture::Capture StepCapture(const StepCaptureShape& shape);

}  // namespace lockstep::tests

#endif  // LOCKSTEP_TESTS_SUPPORT_STEP_CAPTURE_H_
