// The simulated devices' memory: the host's, with a note of what each block is. Any thread.
#ifndef LOCKSTEP_SIM_DEVICE_MEMORY_H_
#define LOCKSTEP_SIM_DEVICE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "sim/cupti/device_record.h"
#include "wire/foreign/cupti_records.h"

namespace lockstep::sim {

class Memory {
 public:
  // Of device memory: from the device itself (cudaMalloc) or from its default pool (cudaMallocAsync).
  enum class Origin : uint8_t { kDevice, kPool };
  struct Block {
    foreign::cupti::MemoryKind kind = foreign::cupti::MemoryKind::kPageable;
    int device = 0;
    void* first = nullptr;
    size_t bytes = 0;
    Origin origin = Origin::kDevice;
  };
  // Zeroed, aligned to 256; null when there is none.
  void* New(size_t bytes, foreign::cupti::MemoryKind kind, int device, Origin origin = Origin::kDevice);
  bool Delete(void* first);
  // The block that holds an address: pageable host memory when none of ours does.
  Block Of(const void* address);
  size_t used_bytes();
  // What is in use of the device's pool, which holds no more than that.
  size_t PoolBytes(int device);

 private:
  std::mutex mutex_;
  std::map<uintptr_t, Block> blocks_;  // by first address
  size_t used_ = 0;
  std::map<int, size_t> pools_;  // bytes in use, by device
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_DEVICE_MEMORY_H_
