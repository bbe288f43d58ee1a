// Computes the duration of work on the simulated device. It is deterministic: equal settings and an equal
// order of calls give equal times. It is thread-compatible.
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

class KernelModel {
 public:
  explicit KernelModel(const DeviceSettings& settings);

  // `name` is the name that CUPTI reports. Without a rule for it, the duration is a fixed cost plus a time
  // per wave of blocks.
  int64_t KernelNs(const char* name, const KernelShape& shape);
  enum class Path { kHostDevice, kOnDevice };
  int64_t CopyNs(uint64_t bytes, Path path) const;

 private:
  const KernelRule* RuleFor(const char* name);

  const DeviceSettings settings_;
  std::map<std::string, const KernelRule*> known_;
  std::mt19937_64 random_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_DEVICE_KERNEL_MODEL_H_
