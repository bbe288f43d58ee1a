// Rule for step ranges that follow one another. Pure, any thread.
#ifndef LOCKSTEP_CAPTURE_MODEL_STEP_RANGES_H_
#define LOCKSTEP_CAPTURE_MODEL_STEP_RANGES_H_

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace lockstep::capture {

// Ranges that follow one another may overlap by this much, because profilers round their stamps and read the
// clock before the one ends and after the next begins. The larger one counts: a time, or this part of the
// shorter range.
inline constexpr Nanos kTouching = Nanos::Micros(10);
inline constexpr int64_t kTouchingPart = 100;

// True if `next` begins after `before` ends, but for rounding. False for nested and repeated ranges.
inline bool Follows(HostInterval before, HostInterval next) {
  const Nanos shorter = std::min(before.end - before.start, next.end - next.start);
  return before.end - next.start <= std::min(shorter / 2, std::max(kTouching, shorter / kTouchingPart));
}

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_MODEL_STEP_RANGES_H_
