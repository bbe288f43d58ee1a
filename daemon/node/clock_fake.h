// A clock whose time the test advances.
#ifndef LOCKSTEP_DAEMON_NODE_CLOCK_FAKE_H_
#define LOCKSTEP_DAEMON_NODE_CLOCK_FAKE_H_

#include <atomic>

#include "base/clock.h"

namespace lockstep::daemon {

class FakeClock final : public Clock {
 public:
  MonoTime Monotonic() const override { return MonoTime(mono_ns_); }
  HostTime Realtime() const override { return HostTime(mono_ns_ + kEpoch); }
  void Advance(Nanos by) { mono_ns_ += by.ns(); }

 private:
  static constexpr int64_t kEpoch = 1'790'000'000'000'000'000;
  std::atomic<int64_t> mono_ns_ = 1'000'000'000;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_NODE_CLOCK_FAKE_H_
