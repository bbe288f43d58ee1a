// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014). The same seed
// gives the same random numbers and hashes on every machine. One thread at a time may use it.
#ifndef LOCKSTEP_BASE_SPLIT_MIX_H_
#define LOCKSTEP_BASE_SPLIT_MIX_H_

#include <cstddef>
#include <cstdint>

namespace lockstep {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ull;

// Every bit of `z` affects every bit of the result.
constexpr uint64_t Mixed(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// Returns a hash of both values. The order matters.
constexpr uint64_t HashCombine(uint64_t a, uint64_t b) { return Mixed(a * kGolden + b + 1); }

class SplitMix {
 public:
  explicit SplitMix(uint64_t seed) : state_(seed) {}
  uint64_t Next() { return Mixed(state_ += kGolden); }
  // Returns 0 to n - 1; n must not be 0.
  size_t Below(size_t n) { return Next() % n; }

 private:
  uint64_t state_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_SPLIT_MIX_H_
