// Knows which streams and threads ("tracks") may still have records of the window inside CUPTI.
//
// Work on a stream starts in order, and so do the calls of a thread. Suppose that a track had a record inside
// the window, and later one that starts after it. Then it has no more records of the window. If this holds
// for all tracks, nothing is missing, and the drain need not wait.
//
// Records without stamps wait in their track. If the track has later records with stamps, CUPTI lost the
// stamps of the waiting ones. If it has none, they have not run yet.
//
// The converting thread writes; any thread may call unfinished().
#ifndef LOCKSTEP_CLIENT_RECORD_TRACKS_H_
#define LOCKSTEP_CLIENT_RECORD_TRACKS_H_

#include <atomic>
#include <cstdint>
#include <cstring>

namespace lockstep::client {

class Tracks {
 public:
  constexpr Tracks() = default;

  static uint64_t OfStream(uint32_t device, uint32_t stream) {
    return uint64_t{1} << 63 | uint64_t{device} << 32 | stream;
  }
  static uint64_t OfThread(uint32_t thread) { return uint64_t{1} << 62 | thread; }

  void Clear() {
    std::memset(static_cast<void*>(tracks_), 0, sizeof tracks_);
    last_ = nullptr;
    waiting_ = false;
    unfinished_.store(0, std::memory_order_relaxed);
  }

  enum Work : uint32_t { kKernels, kCopies, kSets, kWorks };
  struct Unstamped {
    uint32_t of[kWorks] = {};
  };

  void SeenInside(uint64_t key) {
    Track* track = Find(key);
    if (track == nullptr) {
      // There are more tracks than places, so unfinished() must never reach 0.
      unfinished_.fetch_add(1, std::memory_order_relaxed);
    } else if (track->state == kUnseen) {
      track->state = kInside;
      unfinished_.fetch_add(1, std::memory_order_relaxed);
    }
  }

  void SeenBehind(uint64_t key) {
    Track* track = Find(key);
    if (track == nullptr || track->state == kBehind) return;
    if (track->state == kInside) unfinished_.fetch_sub(1, std::memory_order_relaxed);
    track->state = kBehind;
  }

  // Returns whether the track has passed the window, so that a record without stamps is outside it.
  bool IsBehind(uint64_t key) {
    const Track* track = Find(key);
    return track != nullptr && track->state == kBehind;
  }

  // Returns false if there is no place for the track.
  bool Wait(uint64_t key, Work work) {
    Track* track = Find(key);
    if (track == nullptr) return false;
    ++track->unstamped.of[work];
    waiting_ = true;
    return true;
  }
  // Removes and returns the records that wait in this track.
  Unstamped Take(uint64_t key) {
    Track* track = waiting_ ? Find(key) : nullptr;
    if (track == nullptr) return {};
    const Unstamped taken = track->unstamped;
    track->unstamped = {};
    return taken;
  }
  template <typename Use>
  void ForEachWaiting(Use use) const {
    for (const Track& track : tracks_) {
      if (waiting_ && track.key != 0) use(track.unstamped);
    }
  }

  uint32_t unfinished() const { return unfinished_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kTracks = 512;  // power of two
  enum State : uint32_t { kUnseen, kInside, kBehind };
  struct Track {
    uint64_t key;  // 0: free
    State state;
    Unstamped unstamped;
  };

  Track* Find(uint64_t key) {
    if (last_ != nullptr && last_->key == key) return last_;
    const uint64_t hash = key * 0x9E3779B97F4A7C15ull;
    for (uint32_t probe = 0; probe < 16; ++probe) {
      Track& track = tracks_[((hash >> 40) + probe) & (kTracks - 1)];
      if (track.key != key && track.key != 0) continue;
      track.key = key;
      last_ = &track;
      return last_;
    }
    return nullptr;
  }

  Track tracks_[kTracks] = {};
  Track* last_ = nullptr;
  bool waiting_ = false;  // a record waits in some track since Clear()
  std::atomic<uint32_t> unfinished_{0};
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_RECORD_TRACKS_H_
