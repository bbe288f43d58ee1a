// Generates a scenario: a transformer's training step with data, tensor and pipeline parallelism (1F1B).
#ifndef LOCKSTEP_SCENARIO_GENERATOR_H_
#define LOCKSTEP_SCENARIO_GENERATOR_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "scenario/scenario.h"

namespace lockstep::scenario {

// With the defaults, 8 ranks have steps of about 130 ms and under 400 kernels per step and rank.
struct TransformerShape {
  uint32_t data_parallel = 2;
  uint32_t tensor_parallel = 2;
  uint32_t pipeline_parallel = 2;
  uint32_t layers_per_stage = 2;
  uint32_t microbatches = 4;
  uint32_t ranks_per_host = 8;
  uint32_t noise_ppm = 10'000;
  // Duration of one matrix multiplication in the forward pass. All other durations are proportional to it.
  Nanos matmul = Nanos::Micros(520);
  uint32_t ranks() const { return data_parallel * tensor_parallel * pipeline_parallel; }
};

// Uses tensor parallelism 2 and pipeline parallelism 2 if `ranks` is divisible, and data parallelism for the
// rest.
TransformerShape ShapeFor(uint32_t ranks);

// Rank = (pipeline stage * data_parallel + replica) * tensor_parallel + shard. kInvalidArgument: a size is 0
// or above its limit.
absl::StatusOr<Scenario> MakeTransformer(const TransformerShape& shape);

}  // namespace lockstep::scenario

#endif  // LOCKSTEP_SCENARIO_GENERATOR_H_
