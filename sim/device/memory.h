// Allocates the simulated devices' memory from host memory and keeps the kind of each block. Any thread may
// call it.
#ifndef LOCKSTEP_SIM_DEVICE_MEMORY_H_
#define LOCKSTEP_SIM_DEVICE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>

#include "base/mutex.h"
#include "sim/cupti/device_record.h"
#include "wire/foreign/cupti_records.h"

namespace lockstep::sim {

class Memory {
 public:
  // The source of device memory: the device itself (cudaMalloc) or its default pool (cudaMallocAsync).
  enum class Origin : uint8_t { kDevice, kPool };
  struct Block {
    foreign::cupti::MemoryKind kind = foreign::cupti::MemoryKind::kPageable;
    int device = 0;
    void* first = nullptr;
    size_t bytes = 0;
    Origin origin = Origin::kDevice;
  };
  // Returns zeroed memory, aligned to 256 bytes, or null if none is available.
  void* New(size_t bytes, foreign::cupti::MemoryKind kind, int device, Origin origin = Origin::kDevice);
  bool Delete(void* first);
  // Returns the block that holds an address. An address outside all blocks is pageable host memory.
  Block Of(const void* address);
  size_t used_bytes();
  // Bytes in use in the device's pool. The pool's size is the same number.
  size_t PoolBytes(int device);

 private:
  Mutex mutex_;
  std::map<uintptr_t, Block> blocks_ ABSL_GUARDED_BY(mutex_);  // by first address
  size_t used_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<int, size_t> pools_ ABSL_GUARDED_BY(mutex_);  // bytes in use, by device
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_DEVICE_MEMORY_H_
