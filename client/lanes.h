// Which streams and threads may still have records of the window inside CUPTI.
//
// Work on one stream starts in order, and so do the calls of one thread. A lane that was seen inside the
// window and then starting something behind it has nothing of the window left; when that holds for all,
// nothing is missing and the drain need not wait. Records without stamps wait in their lane until it is known
// what they are: CUPTI lost the stamps where the lane goes on with others, and they have not run yet where it
// does not. Written by the converting thread; unfinished() is read by any.
#ifndef LOCKSTEP_CLIENT_LANES_H_
#define LOCKSTEP_CLIENT_LANES_H_

#include <atomic>
#include <cstdint>
#include <cstring>

namespace lockstep::client {

class Lanes {
 public:
  constexpr Lanes() = default;

  static uint64_t OfStream(uint32_t device, uint32_t stream) {
    return uint64_t{1} << 63 | uint64_t{device} << 32 | stream;
  }
  static uint64_t OfThread(uint32_t thread) { return uint64_t{1} << 62 | thread; }

  void Clear() {
    std::memset(static_cast<void*>(lanes_), 0, sizeof lanes_);
    last_ = nullptr;
    waiting_ = false;
    unfinished_.store(0, std::memory_order_relaxed);
  }

  enum Work : uint32_t { kKernels, kCopies, kSets, kWorks };
  struct Unstamped {
    uint32_t of[kWorks] = {};
  };

  void SeenInside(uint64_t key) {
    Lane* lane = Find(key);
    if (lane == nullptr) {
      // More lanes than places: never say that all are done.
      unfinished_.fetch_add(1, std::memory_order_relaxed);
    } else if (lane->state == kUnseen) {
      lane->state = kInside;
      unfinished_.fetch_add(1, std::memory_order_relaxed);
    }
  }

  void SeenBehind(uint64_t key) {
    Lane* lane = Find(key);
    if (lane == nullptr || lane->state == kBehind) return;
    if (lane->state == kInside) unfinished_.fetch_sub(1, std::memory_order_relaxed);
    lane->state = kBehind;
  }

  // A record of this lane whose stamps are not known yet lies behind the window.
  bool IsBehind(uint64_t key) {
    const Lane* lane = Find(key);
    return lane != nullptr && lane->state == kBehind;
  }

  // False: no place to remember it.
  bool Wait(uint64_t key, Work work) {
    Lane* lane = Find(key);
    if (lane == nullptr) return false;
    ++lane->unstamped.of[work];
    waiting_ = true;
    return true;
  }
  // What has waited in this lane so far.
  Unstamped Take(uint64_t key) {
    Lane* lane = waiting_ ? Find(key) : nullptr;
    if (lane == nullptr) return {};
    const Unstamped taken = lane->unstamped;
    lane->unstamped = {};
    return taken;
  }
  template <typename Use>
  void ForEachWaiting(Use use) const {
    for (const Lane& lane : lanes_) {
      if (waiting_ && lane.key != 0) use(lane.unstamped);
    }
  }

  uint32_t unfinished() const { return unfinished_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kLanes = 512;  // power of two
  enum State : uint32_t { kUnseen, kInside, kBehind };
  struct Lane {
    uint64_t key;  // 0: free
    State state;
    Unstamped unstamped;
  };

  Lane* Find(uint64_t key) {
    if (last_ != nullptr && last_->key == key) return last_;
    const uint64_t hash = key * 0x9E3779B97F4A7C15ull;
    for (uint32_t probe = 0; probe < 16; ++probe) {
      Lane& lane = lanes_[((hash >> 40) + probe) & (kLanes - 1)];
      if (lane.key != key && lane.key != 0) continue;
      lane.key = key;
      last_ = &lane;
      return last_;
    }
    return nullptr;
  }

  Lane lanes_[kLanes] = {};
  Lane* last_ = nullptr;
  bool waiting_ = false;  // any in any lane since Clear()
  std::atomic<uint32_t> unfinished_{0};
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_LANES_H_
