// Estimates one clock for all hosts from kernels whose partners are not known yet.
//
// If two ranks leave the same operations together, their ends keep one distance, up to drift. Of all channels
// that two hosts share, the one with the steadiest distance gives the offset of the clocks. The result is a
// first guess for pairing, without a bound. ClockModel later checks the pairs. Pure functions, any thread.
#ifndef LOCKSTEP_CAPTURE_INFER_COMMON_CLOCK_H_
#define LOCKSTEP_CAPTURE_INFER_COMMON_CLOCK_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/time.h"

namespace lockstep::capture {

// Start and end of one kernel, on the common clock or still on its host's clock.
struct KernelInterval {
  double start_ns = 0;  // since a moment that is common to all intervals of a call
  double end_ns = 0;
};

// The time by which a clock is ahead of another: offset + drift * (t - origin), with t on the clock that is
// ahead.
struct ClockLine {
  double offset_ns = 0;
  double drift = 0;
  double origin_ns = 0;
  double At(double t) const { return offset_ns + drift * (t - origin_ns); }
};

// Distances of ends and starts of two channels, where each end is paired with the nearest end of the other
// channel.
struct Coincidence {
  uint32_t pairs = 0;
  double share = 0;            // share of paired kernels in the time that both channels cover
  double end_spread_ns = 0;    // typical distance of ends
  double end_scatter_ns = 0;   // variation of that distance, without constant differences
  double start_spread_ns = 0;  // typical distance of starts
};

// Both are ordered by end, on one clock.
Coincidence Compare(std::span<const KernelInterval> a, std::span<const KernelInterval> b);

// Joins two channels of one communicator. Paired kernels give the later start and the earlier end; other
// kernels stay as they are.
std::vector<KernelInterval> Merged(std::span<const KernelInterval> a, std::span<const KernelInterval> b);

// Counts of kernels that end together. `telling`: one side began so much earlier that alone it would have
// ended before the other began. `waited`: of these, the earlier side stayed until the other had begun. Both
// sides are ordered by end, on one clock.
struct WaitCounts {
  uint32_t decidable = 0;
  uint32_t waited = 0;
};
WaitCounts CountWaiting(std::span<const KernelInterval> a, std::span<const KernelInterval> b);

// Variation of the intervals' lengths: half the distance between their 20th and 80th percentiles.
double LengthSpread(std::span<const KernelInterval> intervals);

struct ClockGuess {
  ClockLine line;           // lead of b's clock over a's
  Coincidence coincidence;  // with that lead removed
};

// Both are ordered by end. nullopt: half of the shorter one share no distance.
std::optional<ClockGuess> GuessClock(std::span<const KernelInterval> a, std::span<const KernelInterval> b);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_INFER_COMMON_CLOCK_H_
