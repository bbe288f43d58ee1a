// One clock for all hosts from kernels whose partners are not known yet.
//
// Two ranks that leave the same operations together have ends that keep one distance, up to drift; of all
// channels that two hosts share, the one whose ends keep theirs best says how the clocks lie to each other. A
// first guess for pairing, without a bound: what is paired by it is judged by ClockModel later. Pure
// functions, any thread.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_COMMON_CLOCK_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_COMMON_CLOCK_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/time.h"

namespace lockstep::align {

// Start and end of one kernel on a clock that may still be its host's.
struct Stay {
  double start_ns = 0;  // since any one moment that all stays of a call share
  double end_ns = 0;
};

// How far a clock is ahead of another: offset + drift * (t - origin), t on the first of the two.
struct ClockLine {
  double offset_ns = 0;
  double drift = 0;
  double origin_ns = 0;
  double At(double t) const { return offset_ns + drift * (t - origin_ns); }
};

// How ends and starts of two channels lie to each other, where each end is paired with the nearest of the
// other.
struct Coincidence {
  uint32_t pairs = 0;
  double share = 0;            // of the kernels that lie where both channels have some
  double end_spread_ns = 0;    // typical distance of ends
  double end_scatter_ns = 0;   // and how much it varies: without habits
  double start_spread_ns = 0;  // and of starts
};

// Both in order of end, on one clock.
Coincidence Compare(std::span<const Stay> a, std::span<const Stay> b);

// What two channels are when they are one: where their ends meet, the later start and the earlier end; the
// rest as it is.
std::vector<Stay> Joined(std::span<const Stay> a, std::span<const Stay> b);

// Of the kernels that end together: how often one side had begun so much earlier that alone it would have
// been done before the other had begun, and how often of these it stayed until the other was done. Both in
// order of end, on one clock.
struct Lateness {
  uint32_t telling = 0;
  uint32_t waited = 0;
};
Lateness WhoWaited(std::span<const Stay> a, std::span<const Stay> b);

// How much the stays' lengths vary: half the distance of their 20th and 80th percentile.
double LengthSpread(std::span<const Stay> stays);

struct ClockGuess {
  ClockLine line;           // how far b's clock is ahead of a's
  Coincidence coincidence;  // with that taken out
};

// Both in order of end. nullopt: no distance is shared by half of the shorter one.
std::optional<ClockGuess> GuessClock(std::span<const Stay> a, std::span<const Stay> b);

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_COMMON_CLOCK_H_
