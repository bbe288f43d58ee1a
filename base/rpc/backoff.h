// Backoff computes the wait before the next attempt to connect. The wait doubles from 50 ms to 2 s. Jitter
// keeps the daemons of a cluster from reconnecting at the same time. gRPC's own back-off (1 to 120 s) is too
// slow for a capture of two seconds.
#ifndef LOCKSTEP_BASE_RPC_BACKOFF_H_
#define LOCKSTEP_BASE_RPC_BACKOFF_H_

#include <cstdint>

#include "base/time.h"

namespace lockstep::rpc {

inline constexpr Nanos kFirstBackoff = Nanos::Millis(50);
inline constexpr Nanos kLongestBackoff = Nanos::Seconds(2);

// One thread at a time may use it.
class Backoff {
 public:
  explicit Backoff(uint64_t seed) : state_(seed | 1) {}

  // The wait before the next attempt: within [3/4, 5/4] of 50 ms, 100 ms, … 2 s.
  Nanos Next();
  // Call it after a successful attempt.
  void Reset() { wait_ = kFirstBackoff; }

 private:
  uint64_t state_;
  Nanos wait_ = kFirstBackoff;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_BASE_RPC_BACKOFF_H_
