// How long things take: the scenario's durations with noise, pauses and the one fault.
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
  kSlowGpu,    // its kernels take longer, communication excepted
  kHostStall,  // its host loses time once per step, at the first call
  kSlowLink,   // collectives of its groups, and messages from and to it, take longer for everybody in them
  kCopy,       // its copies take longer
};
// "none", "slow_gpu", …; false when the text is none of them.
std::string_view FaultName(FaultKind kind);
bool FaultFromText(std::string_view text, FaultKind* out);

struct Fault {
  FaultKind kind = FaultKind::kNone;
  uint32_t rank = 0;
  double size = 0;         // fraction of the healthy step
  Nanos extra;             // kHostStall: per step
  int64_t factor_ppm = 0;  // others: by how much durations grow
  uint32_t from_step = 0;  // healthy before
};

struct Knobs {
  uint64_t seed = 1;
  Fault fault;
  // Each step of each rank pauses with this probability, once, at a drawn call.
  uint32_t pause_ppm = 0;
  Nanos pause;  // mean length; the drawn ones lie between 0 and twice this
};

// What the fault's knob acts on, per step: own durations on that rank.
Nanos AffectedWork(const scenario::Scenario& scenario, FaultKind kind, uint32_t rank);

// The fault that lengthens the rank's own work by `size` * `healthy_step` per step. False when the rank has
// no work of that kind (no copies, no communication).
bool SizeFault(const scenario::Scenario& scenario, FaultKind kind, uint32_t rank, double size,
               Nanos healthy_step, Fault* out);

// Pure: equal questions get equal answers, on any thread. `program` must outlive it.
class Model {
 public:
  Model(const Program& program, const Knobs& knobs);
  Nanos Own(uint32_t step, uint32_t op) const;
  Nanos Gap(uint32_t step, uint32_t op) const;

 private:
  Nanos Noise(uint32_t step, uint32_t op, Nanos own) const;

  const Program& program_;
  Knobs knobs_;
  std::vector<int64_t> factor_ppm_;  // by op, on top of 1
  std::vector<uint32_t> call_ops_;   // ops that are calls
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_ENGINE_MODEL_H_
