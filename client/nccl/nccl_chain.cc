#include "client/nccl/nccl_chain.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include "client/record/text.h"
#include "client/record/timing.h"

namespace lockstep::client {
namespace {

// Searches like NCCL: first the name itself, then libnccl-profiler-NAME.so.
void* Open(const char* name) {
  void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  Sentence file;
  file << "libnccl-profiler-" << name << ".so";
  return ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
}

constexpr const char* kSymbols[] = {"ncclProfiler_v1", "ncclProfiler_v2", "ncclProfiler_v3",
                                    "ncclProfiler_v4", "ncclProfiler_v5", "ncclProfiler_v6"};

}  // namespace

void NcclChain::Load(int version, const void* own) {
  const void* found = version == given_version_ ? given_table_ : nullptr;
  if (found == nullptr && name_ != nullptr) {
    void* library = Open(name_);
    if (library != nullptr) found = ::dlsym(library, kSymbols[version - 1]);
  }
  if (found == nullptr || found == own) return;
  void* memory = ::mmap(nullptr, kPlaces * sizeof(Place), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  // Without this memory, the chained plugin still receives every event. Our events are lost while it receives
  // the same ones.
  places_ = memory == MAP_FAILED ? nullptr : static_cast<Place*>(memory);
  table_ = found;
  version_.store(version, std::memory_order_release);
}

const void* NcclChain::Table(int version, const void* own) {
  if (!wanted() || version < 1 || version > 6) return nullptr;
  uint32_t expected = kNot;
  if (state_.compare_exchange_strong(expected, kLoading)) {
    Load(version, own);
    state_.store(kLoaded, std::memory_order_release);
  }
  while (state_.load(std::memory_order_acquire) != kLoaded) kSystemTiming.pause(Nanos::Micros(100));
  return InUse(version);
}

void* NcclChain::NewPair(const Pair& pair) {
  if (places_ == nullptr) return nullptr;
  for (uint32_t probe = 0; probe < kProbes; ++probe) {
    const uint64_t serial = next_.fetch_add(1, std::memory_order_relaxed);
    const uint64_t index = serial & (kPlaces - 1);
    Place& place = places_[index];
    uint64_t use = place.use.load(std::memory_order_relaxed);
    if ((use & 1) != 0 || !place.use.compare_exchange_strong(use, serial << 1 | 1)) continue;
    place.ours.store(pair.ours, std::memory_order_relaxed);
    place.chained.store(pair.chained, std::memory_order_release);
    return reinterpret_cast<void*>(kPair | serial << 2);
  }
  return nullptr;
}

NcclChain::Place* NcclChain::Find(const void* handle, uint64_t* serial) const {
  constexpr uint64_t kSerialMask = (uint64_t{1} << 60) - 1;
  *serial = reinterpret_cast<uintptr_t>(handle) >> 2 & kSerialMask;
  if (places_ == nullptr) return nullptr;
  Place& place = places_[*serial & (kPlaces - 1)];
  return place.use.load(std::memory_order_acquire) >> 1 == *serial ? &place : nullptr;
}

void NcclChain::SetOurs(const void* handle, void* ours) {
  uint64_t serial = 0;
  if (Place* place = Find(handle, &serial)) place->ours.store(ours, std::memory_order_release);
}

NcclChain::Pair NcclChain::Split(const void* handle) const {
  const auto bits = reinterpret_cast<uintptr_t>(handle);
  if ((bits & kPair) != 0) {
    uint64_t serial = 0;
    const Place* place = Find(handle, &serial);
    if (place == nullptr) return {};
    const Pair pair{place->ours.load(std::memory_order_relaxed),
                    place->chained.load(std::memory_order_acquire)};
    // The place was reused meanwhile, so these values may belong to the next event.
    return place->use.load(std::memory_order_acquire) >> 1 == serial ? pair : Pair{};
  }
  if ((bits & kOurs) != 0) return {reinterpret_cast<void*>(bits & ~kOurs), nullptr};
  return {nullptr, const_cast<void*>(handle)};
}

NcclChain::Pair NcclChain::Stop(const void* handle) {
  const Pair pair = Split(handle);
  if ((reinterpret_cast<uintptr_t>(handle) & kPair) == 0) return pair;
  uint64_t serial = 0;
  Place* place = Find(handle, &serial);
  uint64_t open = serial << 1 | 1;
  // A second stop of the same event finds nothing.
  if (place == nullptr || !place->use.compare_exchange_strong(open, serial << 1)) return {};
  return pair;
}

}  // namespace lockstep::client
