// Random draws that depend only on their purpose and place, not on the order of the calls. A rank that is
// stopped for a while therefore draws the same values.
#ifndef LOCKSTEP_SIM_ENGINE_RANDOM_H_
#define LOCKSTEP_SIM_ENGINE_RANDOM_H_

#include <cstdint>

namespace lockstep::sim {

enum class Purpose : uint64_t {
  kDuration = 1,
  kSharedDuration,
  kExitSkew,
  kPause,
  kPauseLength,
  kPausePlace,
  kDrop
};

constexpr uint64_t Mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9ull;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

constexpr uint64_t Combine(uint64_t a, uint64_t b) { return Mix(a + 0x9E3779B97F4A7C15ull * (b + 1)); }

// `whose` is a rank or a number that several ranks share. All 64 bits are uniform.
constexpr uint64_t Draw(uint64_t seed, uint64_t whose, uint64_t step, uint64_t op, Purpose purpose) {
  return Combine(Combine(Combine(Combine(Mix(seed), whose), step), op), static_cast<uint64_t>(purpose));
}

// Returns a value in [0, 1'000'000).
constexpr uint64_t PartsPerMillion(uint64_t draw) { return (draw >> 20) % 1'000'000; }

// Returns an approximately normal value in thousandths of its standard deviation, within ±3465. It uses only
// integers, so that all machines get the same value.
constexpr int64_t NormalThousandths(uint64_t draw) {
  const int64_t sum =
      static_cast<int64_t>((draw & 0xFFFF) + (draw >> 16 & 0xFFFF) + (draw >> 32 & 0xFFFF) + (draw >> 48));
  return (sum - 2 * 0xFFFF) * 1000 / 37837;
}

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_ENGINE_RANDOM_H_
