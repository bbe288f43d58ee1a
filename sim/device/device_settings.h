// What the environment asks of the simulated device. Read once, by the first call that initialises CUDA; what
// is not understood is named on stderr and ignored. RANK is a number or * for all.
//
//   SIMGPU_KERNELS=PATTERN=TIME[~PERCENT],…   how long kernels take: a shell pattern on the demangled or
//   plain name, us or
//                                             ms or ns, and the standard deviation. First match wins
//   SIMGPU_SLOW_RANK=RANK:FACTOR              that rank's kernels take FACTOR times as long
//   SIMGPU_SLOW_COPIES=RANK:FACTOR            its copies between host and device
//   SIMGPU_STALL=RANK:LAUNCH:MS               its host stands still so long before its LAUNCHth kernel (once)
//   SIMGPU_DEVICES=8  SIMGPU_SEED=1  SIMGPU_COPY_GBPS=25  SIMGPU_LINK_GBPS=40
//   SIMGPU_RANK=N                             who this process is; else the launcher's variables say
#ifndef LOCKSTEP_SIM_DEVICE_KNOBS_H_
#define LOCKSTEP_SIM_DEVICE_KNOBS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::sim {

struct KernelRule {
  std::string pattern;
  int64_t mean_ns = 0;
  double deviation = 0;  // of the mean
};

struct DeviceKnobs {
  int rank = 0;
  int devices = 8;
  uint64_t seed = 1;
  double copy_gbps = 25;  // GB/s
  double link_gbps = 40;
  std::vector<KernelRule> kernels;
  // Of this process, already told apart by rank.
  double kernel_factor = 1;
  double copy_factor = 1;
  uint64_t stall_launch = 0;  // 0: none
  int64_t stall_ns = 0;

  using Environment = std::function<const char*(const char* name)>;
  // `trouble` gets one sentence for each variable that was not understood.
  static DeviceKnobs Read(const Environment& environment, std::vector<std::string>* trouble);
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_DEVICE_KNOBS_H_
