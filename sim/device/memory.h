// The simulated devices' memory: the host's, with a note of what each block is. Any thread.
#ifndef LOCKSTEP_SIM_DEVICE_MEMORY_H_
#define LOCKSTEP_SIM_DEVICE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "common/foreign/cupti_records.h"

namespace lockstep::sim {

inline constexpr size_t kDeviceMemoryBytes = size_t{80} << 30;

class Memory {
 public:
  struct Block {
    foreign::cupti::MemoryKind kind = foreign::cupti::MemoryKind::kPageable;
    int device = 0;
    void* first = nullptr;
    size_t bytes = 0;
  };
  // Zeroed, aligned to 256; null when there is none.
  void* New(size_t bytes, foreign::cupti::MemoryKind kind, int device);
  bool Delete(void* first);
  // The block that holds an address: pageable host memory when none of ours does.
  Block Of(const void* address);
  size_t used_bytes();

 private:
  std::mutex mutex_;
  std::map<uintptr_t, Block> blocks_;  // by first address
  size_t used_ = 0;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_DEVICE_MEMORY_H_
