// The clock that records are stamped with: CLOCK_REALTIME, or a profiler's own once one has registered a
// timestamp callback. Stamps come in as CLOCK_REALTIME nanoseconds and leave on that clock, mapped by a line
// through two readings of both clocks: at the registration and at the time of asking. Any thread.
#ifndef LOCKSTEP_SIM_CUPTI_TIMEBASE_H_
#define LOCKSTEP_SIM_CUPTI_TIMEBASE_H_

#include <cstdint>
#include <mutex>

#include "wire/foreign/cupti.h"

namespace lockstep::sim {

class Timebase {
 public:
  // Below CUPTI 13.3 device stamps stay on CLOCK_REALTIME when the callback comes after the first context.
  enum class DeviceStamps { kFollow, kStay };
  // Null gives the clock back.
  void Register(foreign::cupti::TimestampCallback callback, DeviceStamps device);

  uint64_t Now() const;
  // Rewrites the stamps in a whole record (layout of the newest release); 0 stays 0.
  void Apply(uint8_t* record) const;

 private:
  struct Reading {
    int64_t real = 0;
    uint64_t other = 0;
  };
  static Reading Read(foreign::cupti::TimestampCallback callback);

  mutable std::mutex mutex_;
  foreign::cupti::TimestampCallback callback_ = nullptr;
  DeviceStamps device_ = DeviceStamps::kFollow;
  Reading first_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_CUPTI_TIMEBASE_H_
