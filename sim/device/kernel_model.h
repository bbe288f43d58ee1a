// How long work takes on the simulated device. Deterministic: same knobs, same order of calls, same times.
// Thread-compatible.
#ifndef LOCKSTEP_SIM_DEVICE_KERNEL_MODEL_H_
#define LOCKSTEP_SIM_DEVICE_KERNEL_MODEL_H_

#include <cstdint>
#include <map>
#include <random>
#include <string>

#include "sim/cupti/device_record.h"
#include "sim/device/device_settings.h"

namespace lockstep::sim {

struct KernelShape {
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t shared_bytes = 0;
};

// An H100's, so that a program's questions about occupancy get plausible answers.

class KernelModel {
 public:
  explicit KernelModel(const DeviceKnobs& knobs);

  // `name` as CUPTI reports it. Without a rule: the fixed cost of a kernel and a time per wave of blocks.
  int64_t KernelNs(const char* name, const KernelShape& shape);
  enum class Path { kHostDevice, kOnDevice };
  int64_t CopyNs(uint64_t bytes, Path path) const;

 private:
  const KernelRule* RuleFor(const char* name);

  const DeviceKnobs knobs_;
  std::map<std::string, const KernelRule*> known_;
  std::mt19937_64 random_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_DEVICE_KERNEL_MODEL_H_
