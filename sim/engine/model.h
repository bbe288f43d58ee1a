// Computes durations: the scenario's values with noise, pauses and at most one fault.
#ifndef LOCKSTEP_SIM_ENGINE_MODEL_H_
#define LOCKSTEP_SIM_ENGINE_MODEL_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "sim/engine/program.h"

namespace lockstep::sim {

enum class FaultKind : uint8_t {
  kNone,
  kSlowGpu,    // its kernels take longer, except communication kernels
  kHostStall,  // its host loses time once per step, at the step's first call
  kSlowLink,   // collectives of its groups and its messages take longer for all participants
  kCopy,       // its copies take longer
};
// FaultName returns "none", "slow_gpu", …. FaultFromText returns false for any other text.
std::string_view FaultName(FaultKind kind);
bool FaultFromText(std::string_view text, FaultKind* out);

struct Fault {
  FaultKind kind = FaultKind::kNone;
  uint32_t rank = 0;
  double size = 0;         // fraction of the healthy step
  Nanos extra;             // kHostStall: time per step; an iteration may have several steps
  int64_t factor_ppm = 0;  // other kinds: growth of durations
  uint32_t from_step = 0;  // first iteration with the fault
};

struct ModelSettings {
  uint64_t seed = 1;
  Fault fault;
  // Probability per step and rank of one pause, at a randomly drawn call.
  uint32_t pause_ppm = 0;
  Nanos pause;  // mean length; each length is between 0 and twice the mean
};

// Returns the ops at which a stalled host of the rank loses time: the first call of each step of an
// iteration. Calls on the thread of the step come before those on other threads. A range whose name has
// "{step" is a step, unless it is inside another one. An iteration without such a range is one step.
std::vector<uint32_t> StallCalls(const scenario::Scenario& scenario, uint32_t rank);

// Returns the rank's own time per iteration that the fault lengthens.
Nanos AffectedWork(const scenario::Scenario& scenario, FaultKind kind, uint32_t rank);

// Computes the fault that lengthens the rank's own work by `size` * `healthy_step` per iteration. Returns
// false if the rank has no work of that kind (no calls, no copies, no communication).
bool SizeFault(const scenario::Scenario& scenario, FaultKind kind, uint32_t rank, double size,
               Nanos healthy_step, Fault* out);

// Pure functions: equal arguments give equal results on any thread. `program` must outlive the model.
class Model {
 public:
  Model(const Program& program, const ModelSettings& settings);
  Nanos ServiceTime(uint32_t step, uint32_t op) const;
  Nanos Gap(uint32_t step, uint32_t op) const;

 private:
  Nanos Noise(uint32_t step, uint32_t op, Nanos service_time) const;

  const Program& program_;
  ModelSettings settings_;
  std::vector<int64_t> factor_ppm_;  // by op, added to 1
  std::vector<uint32_t> call_ops_;   // indices of the ops that are calls
  std::vector<bool> stalls_;         // by op
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_ENGINE_MODEL_H_
