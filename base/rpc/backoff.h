// How long to wait before the next attempt to connect: doubles from 50 ms to 2 s, with jitter so that the
// daemons of a cluster do not come back in step. gRPC's own back-off (1 to 120 s) is too slow for a capture
// of two seconds.
#ifndef LOCKSTEP_COMMON_RPC_BACKOFF_H_
#define LOCKSTEP_COMMON_RPC_BACKOFF_H_

#include <cstdint>

#include "base/time.h"

namespace lockstep::rpc {

inline constexpr Nanos kFirstBackoff = Nanos::Millis(50);
inline constexpr Nanos kLongestBackoff = Nanos::Seconds(2);

// One thread.
class Backoff {
 public:
  explicit Backoff(uint64_t seed) : state_(seed | 1) {}

  // The wait before the next attempt: within [3/4, 5/4] of 50 ms, 100 ms, … 2 s.
  Nanos Next();
  // After an attempt that worked.
  void Reset() { wait_ = kFirstBackoff; }

 private:
  uint64_t state_;
  Nanos wait_ = kFirstBackoff;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_COMMON_RPC_BACKOFF_H_
