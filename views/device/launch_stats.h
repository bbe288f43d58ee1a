// Computes launch delays, queue lengths, and rates of copies (Holistic Trace Analysis' launch statistics,
// queue length and memory bandwidth).
#ifndef LOCKSTEP_VIEWS_DEVICE_LAUNCH_STATS_H_
#define LOCKSTEP_VIEWS_DEVICE_LAUNCH_STATS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "capture/model/capture.h"
#include "views/device/device_work.h"

namespace lockstep::views {

enum class LaunchRanks : uint8_t { kTogether, kEach };

// Limits of HTA.
inline constexpr Nanos kLongCall = Nanos::Micros(50);
inline constexpr Nanos kLateStart = Nanos::Micros(100);

// All kernels, copies and sets of one name with a recorded launch. The delay lasts from the end of the call
// to the start on the device; it is 0 if the activity started before the call ended.
struct LaunchStat {
  RankId rank = kNoRank;       // kNoRank: all ranks
  std::optional<NameId> name;  // nullopt: all names
  uint64_t calls = 0;
  Nanos host, device, delay;  // sums
  Nanos median_delay, longest_delay;
  uint64_t shorter_than_call = 0;  // activities shorter than their call
  uint64_t long_calls = 0;         // calls longer than kLongCall
  uint64_t late_starts = 0;        // delays longer than kLateStart
};

// Returns, for each rank or for all ranks together, a row for all work and then a row per name, longest delay
// first. With kHta, only work launched by cudaLaunchKernel, cudaLaunchKernelExC, cudaMemcpyAsync and
// cudaMemsetAsync counts, as in HTA.
std::vector<LaunchStat> LaunchStatsOf(const capture::Capture& capture, LaunchRanks ranks, DeviceRule rule);

// HTA's limit: a launch blocks if this much work is queued.
inline constexpr uint64_t kFullQueue = 1024;

// The queue of one stream: work whose launch began and that has not started.
struct StreamQueue {
  RankId rank;
  DeviceId device;
  StreamId stream;
  uint64_t launches = 0;
  double mean = 0;  // from the first launch to the last start
  uint64_t longest = 0;
  Nanos full;  // time with kFullQueue or more
};
// With kHta, work launched by cuLaunchKernel and cuLaunchKernelEx counts too, as in HTA's queues.
std::vector<StreamQueue> StreamQueuesOf(const capture::Capture& capture, DeviceRule rule);

// The rate of one kind of copy or set.
struct CopyRate {
  RankId rank;
  DeviceId device;
  NameId name;
  uint64_t copies = 0;
  uint64_t bytes = 0;
  uint64_t unknown = 0;  // copies with unknown bytes or without duration; the rates leave them out
  Nanos busy;            // time in which any of them ran
  std::optional<double> bytes_per_s;       // over the busy time
  std::optional<double> peak_bytes_per_s;  // of all that ran at the same time
};
std::vector<CopyRate> CopyRatesOf(const capture::Capture& capture, DeviceRule rule);

// The length of a queue from `at` until the stream's next point. There is a point for each change, stream by
// stream.
struct QueuePoint {
  RankId rank;
  DeviceId device;
  StreamId stream;
  HostTime at;
  uint64_t queued = 0;
};
std::vector<QueuePoint> QueueSeriesOf(const capture::Capture& capture, DeviceRule rule);

// The rate of a kind of copy from `at` until its next point.
struct CopyRatePoint {
  RankId rank;
  DeviceId device;
  NameId name;
  HostTime at;
  double bytes_per_s = 0;
};
std::vector<CopyRatePoint> CopyRateSeriesOf(const capture::Capture& capture, DeviceRule rule);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_DEVICE_LAUNCH_STATS_H_
