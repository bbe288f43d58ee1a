// A transformer's training step with data, tensor and pipeline parallelism (1F1B), as a scenario.
#ifndef LOCKSTEP_COMMON_SCENARIO_GENERATOR_H_
#define LOCKSTEP_COMMON_SCENARIO_GENERATOR_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "scenario/scenario.h"

namespace lockstep::scenario {

// The defaults give a step of about 130 ms and under 400 kernels per step and rank with 8 ranks.
struct TransformerShape {
  uint32_t data_parallel = 2;
  uint32_t tensor_parallel = 2;
  uint32_t pipeline_parallel = 2;
  uint32_t layers_per_stage = 2;
  uint32_t microbatches = 4;
  uint32_t ranks_per_host = 8;
  uint32_t noise_ppm = 10'000;
  // Of one matrix multiplication in the forward pass; everything else follows in proportion.
  Nanos matmul = Nanos::Micros(520);
  uint32_t ranks() const { return data_parallel * tensor_parallel * pipeline_parallel; }
};

// tensor 2 and pipeline 2 as far as `ranks` divides, the rest data parallel.
TransformerShape ShapeFor(uint32_t ranks);

// Rank = (pipeline stage * data_parallel + replica) * tensor_parallel + shard. kInvalidArgument: a size is 0
// or absurd.
absl::StatusOr<Scenario> MakeTransformer(const TransformerShape& shape);

}  // namespace lockstep::scenario

#endif  // LOCKSTEP_COMMON_SCENARIO_GENERATOR_H_
