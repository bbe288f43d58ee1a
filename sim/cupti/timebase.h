// The clock of the records' time stamps: CLOCK_REALTIME, or a profiler's clock after it registered a
// timestamp callback. Time stamps arrive in CLOCK_REALTIME nanoseconds and are converted to that clock. The
// conversion is linear, through readings of both clocks at the registration and at the conversion. Any thread
// may call it.
#ifndef LOCKSTEP_SIM_CUPTI_TIMEBASE_H_
#define LOCKSTEP_SIM_CUPTI_TIMEBASE_H_

#include <cstdint>

#include "base/mutex.h"
#include "wire/foreign/cupti.h"

namespace lockstep::sim {

class Timebase {
 public:
  // Before CUPTI 13.3, device stamps stay on CLOCK_REALTIME if the callback is registered after the first
  // context.
  enum class DeviceStamps { kFollow, kStay };
  // A null callback restores CLOCK_REALTIME.
  void Register(foreign::cupti::TimestampCallback callback, DeviceStamps device);

  uint64_t Now() const;
  // Converts the time stamps of a complete record in the newest layout. A stamp of 0 stays 0.
  void Apply(uint8_t* record) const;

  // See ActivityHub.
  void LockForFork() ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex_) { mutex_.Lock(); }
  void UnlockAfterFork() ABSL_UNLOCK_FUNCTION(mutex_) { mutex_.Unlock(); }

 private:
  struct Reading {
    int64_t real = 0;
    uint64_t other = 0;
  };
  static Reading Read(foreign::cupti::TimestampCallback callback);

  mutable Mutex mutex_;
  foreign::cupti::TimestampCallback callback_ ABSL_GUARDED_BY(mutex_) = nullptr;
  DeviceStamps device_ ABSL_GUARDED_BY(mutex_) = DeviceStamps::kFollow;
  Reading first_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_CUPTI_TIMEBASE_H_
