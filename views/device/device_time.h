// Divides the time of each device by kind of work, and the gaps of its streams by reason (Holistic Trace
// Analysis' temporal breakdown, kernel types and idle time).
#ifndef LOCKSTEP_VIEWS_DEVICE_DEVICE_TIME_H_
#define LOCKSTEP_VIEWS_DEVICE_DEVICE_TIME_H_

#include <array>
#include <cstdint>
#include <vector>

#include "capture/model/capture.h"
#include "views/device/device_work.h"

namespace lockstep::views {

// Kinds of work that a device may run at the same time, one bit each.
enum DeviceKind : uint8_t { kComputing = 1, kCommunicating = 2, kCopying = 4 };
inline constexpr size_t kDeviceKinds = 8;

// The time of one entry of the capture, from its first start to its last end.
struct DeviceTime {
  RankId rank;
  DeviceId device;
  Nanos span;
  // By the kinds that ran at the same time; [0] is idle time. They sum to `span`.
  std::array<Nanos, kDeviceKinds> together;

  Nanos TimeWithAll(uint8_t kinds) const;  // time in which all these kinds ran, with or without others
  Nanos idle() const { return together[0]; }
};

// Returns one row per entry of the capture. Devices without work are left out.
std::vector<DeviceTime> DeviceTimesOf(const capture::Capture& capture, DeviceRule rule);

// The gaps between activities of one stream, by the reason why the next activity did not follow at once.
struct StreamIdle {
  RankId rank;
  DeviceId device;
  StreamId stream;
  uint64_t gaps = 0;
  Nanos host_wait;    // launched only after the stream had become idle
  Nanos kernel_wait;  // launched in time, and the gap is shorter than `consecutive`: the usual gap between
                      // two kernels
  Nanos other;        // launched in time, but delayed by an event, another stream or a full device
};

// HTA's limit: a shorter gap counts as the cost of launching.
inline constexpr Nanos kConsecutive = Nanos::Micros(30);

// Sorted by entry, then stream. By Lockstep's rule, a gap begins when all earlier work of the stream has
// ended. HTA subtracts the times of neighbours, so its gap is negative if they overlap.
std::vector<StreamIdle> StreamIdleOf(const capture::Capture& capture, DeviceRule rule,
                                     Nanos consecutive = kConsecutive);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_DEVICE_DEVICE_TIME_H_
