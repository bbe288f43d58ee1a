// Where each device's time went, and why its streams stood still (Holistic Trace Analysis' temporal
// breakdown, kernel types and idle time).
#ifndef LOCKSTEP_AGGREGATOR_VIEWS_DEVICE_TIME_H_
#define LOCKSTEP_AGGREGATOR_VIEWS_DEVICE_TIME_H_

#include <array>
#include <cstdint>
#include <vector>

#include "capture/model/capture.h"
#include "views/device/device_work.h"

namespace lockstep::views {

// Kinds of work that a moment of a device may hold together: a bit each.
enum DeviceKind : uint8_t { kComputing = 1, kCommunicating = 2, kCopying = 4 };
inline constexpr size_t kDeviceKinds = 8;

// Of one entry of the capture, from its first start to its last end.
struct DeviceTime {
  RankId rank;
  DeviceId device;
  Nanos span;
  // By the kinds that ran together; [0] is idle. They sum to `span`.
  std::array<Nanos, kDeviceKinds> together;

  Nanos With(uint8_t kinds) const;  // moments that hold all of these, whatever else
  Nanos idle() const { return together[0]; }
};

// By entry; those that did nothing are left out.
std::vector<DeviceTime> DeviceTimesOf(const store::Capture& capture, DeviceRule rule);

// Of one stream: the gaps between what ran on it, by why the next piece did not follow at once.
struct StreamIdle {
  RankId rank;
  DeviceId device;
  StreamId stream;
  uint64_t gaps = 0;
  Nanos host_wait;    // it was launched only after the stream had run dry
  Nanos kernel_wait;  // it was launched in time, and the gap is shorter than `consecutive`: what one kernel
                      // after the other costs
  Nanos other;        // it was launched in time and held back: by an event, another stream, a full device
};

// HTA's limit below which a gap is what launching costs.
inline constexpr Nanos kConsecutive = Nanos::Micros(30);

// By entry, then stream. By Lockstep's rule a gap begins where all that ran on the stream has ended; HTA
// takes neighbours, and where they overlap a gap less than nothing.
std::vector<StreamIdle> StreamIdleOf(const store::Capture& capture, DeviceRule rule,
                                     Nanos consecutive = kConsecutive);

}  // namespace lockstep::views

#endif  // LOCKSTEP_AGGREGATOR_VIEWS_DEVICE_TIME_H_
