#include "base/rpc/backoff.h"

#include <algorithm>

namespace lockstep::rpc {

Nanos Backoff::Next() {
  // xorshift64 is good enough, because the jitter only has to be spread.
  state_ ^= state_ << 13;
  state_ ^= state_ >> 7;
  state_ ^= state_ << 17;
  const int64_t wait = wait_.ns();
  const int64_t jitter = static_cast<int64_t>(state_ % static_cast<uint64_t>(wait / 2)) - wait / 4;
  wait_ = std::min(wait_ * 2, kLongestBackoff);
  return Nanos(wait + jitter);
}

}  // namespace lockstep::rpc
