// Settings of the simulated device from the environment. The first call that initialises CUDA reads them
// once. A value that cannot be parsed is reported on stderr and ignored. RANK is a number, or * for all
// ranks.
//
//   SIMGPU_KERNELS=PATTERN=TIME[~PERCENT],…   duration of kernels and its standard deviation. PATTERN is a
//                                             shell pattern for the demangled or the plain name. TIME ends
//                                             in us or ms or ns. The first match counts.
//   SIMGPU_SLOW_RANK=RANK:FACTOR              that rank's kernels take FACTOR times as long
//   SIMGPU_SLOW_COPIES=RANK:FACTOR            its copies between host and device take FACTOR times as long
//   SIMGPU_STALL=RANK:LAUNCH:MS               its host stalls for MS milliseconds before its LAUNCHth kernel,
//                                             once
//   SIMGPU_NETWORK_CUT=FROM:TO:N              in each communicator over several hosts, the network carries
//   nothing
//                                             from member FROM to member TO from the Nth operation on
//   SIMGPU_DEVICES=8  SIMGPU_SEED=1  SIMGPU_COPY_GBPS=25  SIMGPU_LINK_GBPS=40
//   SIMGPU_RANK=N                             this process's rank; without it, the launcher's variables count
#ifndef LOCKSTEP_SIM_DEVICE_DEVICE_SETTINGS_H_
#define LOCKSTEP_SIM_DEVICE_DEVICE_SETTINGS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::sim {

struct KernelRule {
  std::string pattern;
  int64_t mean_ns = 0;
  double deviation = 0;  // fraction of the mean
};

// Members of a communicator, and the number of its first operation, from 1; 0: no cut.
struct NetworkCut {
  int from = 0;
  int to = 0;
  uint64_t operation = 0;
};

struct DeviceSettings {
  int rank = 0;
  int devices = 8;
  uint64_t seed = 1;
  double copy_gbps = 25;  // GB/s
  double link_gbps = 40;
  std::vector<KernelRule> kernels;
  // Factors of this process; its rank has been applied.
  double kernel_factor = 1;
  double copy_factor = 1;
  uint64_t stall_launch = 0;  // 0 means none
  int64_t stall_ns = 0;
  NetworkCut cut;

  using Environment = std::function<const char*(const char* name)>;
  // `error` receives one sentence for each variable that cannot be parsed.
  static DeviceSettings Read(const Environment& environment, std::vector<std::string>* error);
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_DEVICE_DEVICE_SETTINGS_H_
