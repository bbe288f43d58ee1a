// How late device work came after its launch, how much of it was queued, and how fast copies were (Holistic
// Trace Analysis' launch statistics, queue length and memory bandwidth).
#ifndef LOCKSTEP_AGGREGATOR_VIEWS_LAUNCH_STATS_H_
#define LOCKSTEP_AGGREGATOR_VIEWS_LAUNCH_STATS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "capture/model/capture.h"
#include "views/device/device_work.h"

namespace lockstep::views {

enum class LaunchRanks : uint8_t { kTogether, kEach };

// HTA's limits.
inline constexpr Nanos kLongCall = Nanos::Micros(50);
inline constexpr Nanos kLateStart = Nanos::Micros(100);

// Of all kernels, copies and sets of one name, of which the launch was recorded. Delay: from the end of the
// call to the start on the device, nothing where the device was there first.
struct LaunchStat {
  RankId rank = kNoRank;       // kNoRank: all
  std::optional<NameId> name;  // nullopt: all
  uint64_t calls = 0;
  Nanos host, device, delay;  // sums
  Nanos median_delay, longest_delay;
  uint64_t shorter_than_call = 0;  // ran shorter on the device than the call took
  uint64_t long_calls = 0;         // took more than kLongCall
  uint64_t late_starts = 0;        // a delay of more than kLateStart
};

// For each rank, or once for all: what holds for all work, then each name, the most delay first. kHta:
// kernels, copies and sets launched by cudaLaunchKernel, cudaLaunchKernelExC, cudaMemcpyAsync and
// cudaMemsetAsync, as there.
std::vector<LaunchStat> LaunchStatsOf(const store::Capture& capture, LaunchRanks ranks, DeviceRule rule);

// HTA's limit at which a launch blocks.
inline constexpr uint64_t kFullQueue = 1024;

// Of one stream: work whose launch has begun and which has not started.
struct StreamQueue {
  RankId rank;
  DeviceId device;
  StreamId stream;
  uint64_t launches = 0;
  double mean = 0;  // over the time from the first launch to the last start
  uint64_t longest = 0;
  Nanos full;  // how long it was kFullQueue or more
};
std::vector<StreamQueue> StreamQueuesOf(const store::Capture& capture, DeviceRule rule);

// Of one kind of copy or set.
struct CopyRate {
  RankId rank;
  DeviceId device;
  NameId name;
  uint64_t copies = 0;
  uint64_t bytes = 0;
  uint64_t unknown = 0;  // copies that do not tell their bytes, or took no time; they are in no rate
  Nanos busy;            // when any of them ran
  std::optional<double> bytes_per_s;       // while they ran
  std::optional<double> peak_bytes_per_s;  // of all that ran at once
};
std::vector<CopyRate> CopyRatesOf(const store::Capture& capture, DeviceRule rule);

// From `at` until the stream's next point. A row for each moment at which it changes, stream by stream.
struct QueuePoint {
  RankId rank;
  DeviceId device;
  StreamId stream;
  HostTime at;
  uint64_t queued = 0;
};
std::vector<QueuePoint> QueueSeriesOf(const store::Capture& capture, DeviceRule rule);

// The same of a kind of copy.
struct CopyRatePoint {
  RankId rank;
  DeviceId device;
  NameId name;
  HostTime at;
  double bytes_per_s = 0;
};
std::vector<CopyRatePoint> CopyRateSeriesOf(const store::Capture& capture, DeviceRule rule);

}  // namespace lockstep::views

#endif  // LOCKSTEP_AGGREGATOR_VIEWS_LAUNCH_STATS_H_
