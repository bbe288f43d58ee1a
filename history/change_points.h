// Finds the places where a series of measurements shifts to another level.
//
// The series is split at the place that separates high from low values best, if such a separation is unlikely
// in a random order of the same values. The parts are split again in the same way. A single outlier neither
// makes a change nor hides one. docs/history.md, "Changes", describes the method for users.
#ifndef LOCKSTEP_HISTORY_CHANGE_POINTS_H_
#define LOCKSTEP_HISTORY_CHANGE_POINTS_H_

#include <cstddef>
#include <span>
#include <vector>

namespace lockstep::history {

struct ChangeOptions {
  // The probability that a series without a change has one reported, if the order of its values is by chance.
  // It holds for a series of any length, because a series that is not split is tested once. The test compares
  // with random orders, so it assumes no distribution. At least 2 / kShuffles.
  double false_alarms = 0.01;
  // Smaller shifts of the median, as a fraction of the median before, are not reported, because nothing has
  // to be done.
  double least_shift = 0.02;
};

// Random orders that a split is compared with.
inline constexpr size_t kShuffles = 2000;
// Values on each side of a split. The newest change is therefore reported with its second value at the
// earliest.
inline constexpr size_t kLeastSide = 2;

struct ChangePoint {
  size_t first = 0;  // place of the first value after the change
  // The values up to the previous change, and up to the next.
  size_t before_begin = 0, after_end = 0;
  double before = 0, after = 0;  // medians of both sides
  // The share of random orders that separate as well: below ChangeOptions::false_alarms.
  double probability = 0;
};

// Returns the changes by their place. It is a pure function: the same values give the same changes.
std::vector<ChangePoint> FindChangePoints(std::span<const double> values, const ChangeOptions& options = {});

}  // namespace lockstep::history

#endif  // LOCKSTEP_HISTORY_CHANGE_POINTS_H_
