// The function through which the simulated libnccl reaches the devices in the simulated libcudart. It is
// private to sim/, and both libraries must be of one build. Without the simulated libcudart the function does
// not exist.
#ifndef LOCKSTEP_SIM_DEVICE_PORT_H_
#define LOCKSTEP_SIM_DEVICE_PORT_H_

#include <cstdint>

namespace lockstep::sim {

class Gpu;

inline constexpr uint32_t kSimGpuVersion = 1;
inline constexpr char kSimGpuSymbol[] = "lockstep_sim_gpu";
// Initialises CUDA if no call has done so yet. Returns null for another version. The Gpu lives until the
// process ends.
using SimGpuFn = Gpu* (*)(uint32_t version);

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_DEVICE_PORT_H_
