// Time types that include their clock.
//
// A `Stamp<D>` is a point on clock D, in nanoseconds. A `Nanos` is a length of time. Stamps of different
// clocks cannot be subtracted or compared, so a host's clock cannot be mistaken for the job's. The injected
// client uses this header, so it needs no C++ library at run time.
#ifndef LOCKSTEP_BASE_TIME_H_
#define LOCKSTEP_BASE_TIME_H_

#include <compare>
#include <cstdint>
#include <limits>

namespace lockstep {

// A length of time in nanoseconds. It may be negative.
class Nanos {
 public:
  constexpr Nanos() = default;
  constexpr explicit Nanos(int64_t ns) : ns_(ns) {}
  static constexpr Nanos Micros(int64_t us) { return Nanos(us * 1000); }
  static constexpr Nanos Millis(int64_t ms) { return Nanos(ms * 1000000); }
  static constexpr Nanos Seconds(int64_t s) { return Nanos(s * 1000000000); }
  static constexpr Nanos Max() { return Nanos(std::numeric_limits<int64_t>::max()); }

  constexpr int64_t ns() const { return ns_; }
  constexpr double millis() const { return static_cast<double>(ns_) * 1e-6; }
  constexpr double seconds() const { return static_cast<double>(ns_) * 1e-9; }

  constexpr auto operator<=>(const Nanos&) const = default;
  constexpr Nanos operator-() const { return Nanos(-ns_); }
  constexpr Nanos operator+(Nanos o) const { return Nanos(ns_ + o.ns_); }
  constexpr Nanos operator-(Nanos o) const { return Nanos(ns_ - o.ns_); }
  constexpr Nanos operator*(int64_t k) const { return Nanos(ns_ * k); }
  constexpr Nanos operator/(int64_t k) const { return Nanos(ns_ / k); }
  constexpr Nanos& operator+=(Nanos o) {
    ns_ += o.ns_;
    return *this;
  }
  constexpr Nanos& operator-=(Nanos o) {
    ns_ -= o.ns_;
    return *this;
  }

 private:
  int64_t ns_ = 0;
};

// kHostRealtime: CLOCK_REALTIME of the host that made the stamp. CUPTI reports this clock on Linux.
// kHostMonotonic: CLOCK_MONOTONIC of that host. It never steps. We use it to wait, and to notice that
// CLOCK_REALTIME was stepped.
//
// kJob: the one clock of a capture, CLOCK_REALTIME of the reference host. capture/align maps hosts onto it.
//
// kVirtual: the clock of a simulated rank (sim/), in nanoseconds since the simulation began.
enum class ClockDomain : uint8_t { kHostRealtime = 1, kHostMonotonic = 2, kJob = 3, kVirtual = 4 };

template <ClockDomain D>
class Stamp {
 public:
  constexpr Stamp() = default;
  constexpr explicit Stamp(int64_t ns) : ns_(ns) {}
  static constexpr Stamp Max() { return Stamp(std::numeric_limits<int64_t>::max()); }
  static constexpr Stamp Min() { return Stamp(std::numeric_limits<int64_t>::min()); }

  constexpr int64_t ns() const { return ns_; }

  constexpr auto operator<=>(const Stamp&) const = default;
  constexpr Nanos operator-(Stamp o) const { return Nanos(ns_ - o.ns_); }
  constexpr Stamp operator+(Nanos d) const { return Stamp(ns_ + d.ns()); }
  constexpr Stamp operator-(Nanos d) const { return Stamp(ns_ - d.ns()); }
  constexpr Stamp& operator+=(Nanos d) {
    ns_ += d.ns();
    return *this;
  }

 private:
  int64_t ns_ = 0;
};

using HostTime = Stamp<ClockDomain::kHostRealtime>;
using MonoTime = Stamp<ClockDomain::kHostMonotonic>;
using JobTime = Stamp<ClockDomain::kJob>;
using VirtualTime = Stamp<ClockDomain::kVirtual>;

// A half-open interval [start, end). It is empty if end <= start.
template <typename T>
struct Interval {
  T start;
  T end;
  constexpr Nanos length() const { return end > start ? end - start : Nanos(); }
  constexpr bool operator==(const Interval&) const = default;
};
using HostInterval = Interval<HostTime>;
using JobInterval = Interval<JobTime>;

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_TIME_H_
