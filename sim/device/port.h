// How libnccl's stand-in reaches the devices that live in libcudart's: private to sim/, and only between
// libraries of one build. Without a simulated libcudart in the process the function is not there.
#ifndef LOCKSTEP_SIM_DEVICE_PORT_H_
#define LOCKSTEP_SIM_DEVICE_PORT_H_

#include <cstdint>

namespace lockstep::sim {

class Gpu;

inline constexpr uint32_t kSimGpuVersion = 1;
inline constexpr char kSimGpuSymbol[] = "lockstep_sim_gpu";
// Initialises CUDA if nobody has. Null when it speaks another version. The Gpu lives as long as the process.
using SimGpuFn = Gpu* (*)(uint32_t version);

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_DEVICE_PORT_H_
