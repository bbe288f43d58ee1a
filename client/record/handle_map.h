// Maps another tool's handles to ours, in fixed memory, with open addressing and without locks. When a key is
// visible, its value is set.
#ifndef LOCKSTEP_CLIENT_RECORD_HANDLE_MAP_H_
#define LOCKSTEP_CLIENT_RECORD_HANDLE_MAP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lockstep::client {

template <size_t places>
class HandleMap {
 public:
  static_assert((places & (places - 1)) == 0);
  constexpr HandleMap() = default;

  // The latest value of a key counts. Returns false if the key is reserved (0 to kMark), or if no place is
  // left.
  bool Put(uint64_t key, uint64_t value) {
    if (key <= kMark) return false;
    // An existing key keeps its place. A new key takes the first place that is free or was given up.
    for (size_t probe = 0; probe < places; ++probe) {
      Place& place = At(key, probe);
      const uint64_t there = place.key.load(std::memory_order_acquire);
      if (there == 0) break;
      if (there != key) continue;
      place.value.store(value, std::memory_order_release);
      return true;
    }
    for (size_t probe = 0; probe < places; ++probe) {
      Place& place = At(key, probe);
      uint64_t there = place.key.load(std::memory_order_relaxed);
      if (there != 0 && there != kGivenUp) continue;
      if (!place.key.compare_exchange_strong(there, kMark)) continue;
      place.value.store(value, std::memory_order_relaxed);
      place.key.store(key, std::memory_order_release);
      return true;
    }
    return false;
  }

  // Returns 0 if the key is unknown.
  uint64_t Get(uint64_t key) const {
    const Place* place = Find(key);
    return place != nullptr ? place->value.load(std::memory_order_acquire) : 0;
  }

  // Like Get, and removes the key.
  uint64_t Take(uint64_t key) {
    Place* place = const_cast<Place*>(Find(key));
    if (place == nullptr) return 0;
    const uint64_t value = place->value.load(std::memory_order_acquire);
    uint64_t there = key;
    return place->key.compare_exchange_strong(there, kGivenUp) ? value : 0;
  }

 private:
  static constexpr uint64_t kGivenUp = 1;  // a search continues after it
  static constexpr uint64_t kMark = 2;     // being filled in
  struct Place {
    std::atomic<uint64_t> key{0};
    std::atomic<uint64_t> value{0};
  };

  static size_t PlaceOf(uint64_t key, size_t probe) {
    const uint64_t mixed = key * 0x9E3779B97F4A7C15ull;
    return ((mixed >> 40 ^ mixed >> 20) + probe) & (places - 1);
  }
  Place& At(uint64_t key, size_t probe) { return places_[PlaceOf(key, probe)]; }
  const Place* Find(uint64_t key) const {
    for (size_t probe = 0; key > kMark && probe < places; ++probe) {
      const Place& place = places_[PlaceOf(key, probe)];
      const uint64_t there = place.key.load(std::memory_order_acquire);
      if (there == key) return &place;
      if (there == 0) return nullptr;
    }
    return nullptr;
  }

  Place places_[places];
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_RECORD_HANDLE_MAP_H_
