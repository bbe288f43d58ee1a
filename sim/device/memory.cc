#include "sim/device/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace lockstep::sim {

using foreign::cupti::MemoryKind;

void* Memory::New(size_t bytes, MemoryKind kind, int device, Origin origin) {
  constexpr size_t kAlign = 256;
  const size_t whole = (std::max<size_t>(bytes, 1) + kAlign - 1) / kAlign * kAlign;
  if (kind == MemoryKind::kDevice && whole > kDeviceMemoryBytes) return nullptr;
  void* first = std::aligned_alloc(kAlign, whole);
  if (first == nullptr) return nullptr;
  std::memset(first, 0, whole);
  MutexLock lock(&mutex_);
  blocks_[reinterpret_cast<uintptr_t>(first)] = {kind, device, first, bytes, origin};
  if (kind == MemoryKind::kDevice) used_ += bytes;
  if (origin == Origin::kPool) pools_[device] += bytes;
  return first;
}

bool Memory::Delete(void* first) {
  MutexLock lock(&mutex_);
  const auto it = blocks_.find(reinterpret_cast<uintptr_t>(first));
  if (it == blocks_.end()) return false;
  if (it->second.kind == MemoryKind::kDevice) used_ -= it->second.bytes;
  if (it->second.origin == Origin::kPool) pools_[it->second.device] -= it->second.bytes;
  blocks_.erase(it);
  std::free(first);
  return true;
}

Memory::Block Memory::Of(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  MutexLock lock(&mutex_);
  auto it = blocks_.upper_bound(at);
  if (it == blocks_.begin()) return {};
  --it;
  return at < it->first + std::max<size_t>(it->second.bytes, 1) ? it->second : Block{};
}

size_t Memory::used_bytes() {
  MutexLock lock(&mutex_);
  return used_;
}

size_t Memory::PoolBytes(int device) {
  MutexLock lock(&mutex_);
  return pools_[device];
}

}  // namespace lockstep::sim
