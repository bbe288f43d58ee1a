#include "sim/cupti/timebase.h"

#include <time.h>

#include <limits>

#include "base/read_clock.h"
#include "sim/cupti/record_size.h"

namespace lockstep::sim {
namespace {

namespace cupti = foreign::cupti;
using cupti::ActivityKind;

// Over a shorter interval the measured rate of the two clocks is noise, and a rate of 1 is more accurate.
constexpr int64_t kShortestForARate = 1'000'000;

template <typename Fn>
void ForEachStamp(uint8_t* record, Fn fn) {
  const ActivityKind kind = reinterpret_cast<const cupti::Activity*>(record)->kind;
  const auto pair = [&](auto* r) {
    fn(&r->start);
    fn(&r->end);
  };
  switch (kind) {
    case ActivityKind::kKernel:
    case ActivityKind::kConcurrentKernel: {
      auto* kernel = reinterpret_cast<cupti::Kernel10*>(record);
      pair(kernel);
      fn(&kernel->completed);
      fn(&kernel->queued);
      fn(&kernel->submitted);
      break;
    }
    case ActivityKind::kMemcpy:
      return pair(reinterpret_cast<cupti::Memcpy6*>(record));
    case ActivityKind::kMemset:
      return pair(reinterpret_cast<cupti::Memset4*>(record));
    case ActivityKind::kMemcpyPeer:
      return pair(reinterpret_cast<cupti::MemcpyPeer4*>(record));
    case ActivityKind::kGraphTrace:
      return pair(reinterpret_cast<cupti::GraphTrace2*>(record));
    case ActivityKind::kDriver:
    case ActivityKind::kRuntime:
    case ActivityKind::kInternalLaunchApi:
      return pair(reinterpret_cast<cupti::Api*>(record));
    case ActivityKind::kSynchronization:
      return pair(reinterpret_cast<cupti::Synchronization2*>(record));
    case ActivityKind::kOverhead:
      return pair(reinterpret_cast<cupti::Overhead3*>(record));
    case ActivityKind::kMemory:
      return fn(&reinterpret_cast<cupti::Memory4*>(record)->timestamp);
    case ActivityKind::kCudaEvent:
      return fn(&reinterpret_cast<cupti::CudaEvent2*>(record)->device_timestamp);
    default:
      break;
  }
}

}  // namespace

Timebase::Reading Timebase::Read(cupti::TimestampCallback callback) {
  // A preemption between two reads makes the measured rate wrong, so the closest of several counts.
  constexpr int kTries = 8;
  constexpr int64_t kTightNs = 500;
  Reading best;
  int64_t tightest = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < kTries && tightest > kTightNs; ++i) {
    const int64_t before = ReadClockNs(CLOCK_REALTIME);
    const uint64_t other = callback();
    const int64_t took = ReadClockNs(CLOCK_REALTIME) - before;
    if (took >= tightest) continue;
    tightest = took;
    best = {before + took / 2, other};
  }
  return best;
}

void Timebase::Register(cupti::TimestampCallback callback, DeviceStamps device) {
  MutexLock lock(&mutex_);
  callback_ = callback;
  device_ = device;
  if (callback != nullptr) first_ = Read(callback);
}

uint64_t Timebase::Now() const {
  MutexLock lock(&mutex_);
  return callback_ == nullptr ? static_cast<uint64_t>(ReadClockNs(CLOCK_REALTIME)) : callback_();
}

void Timebase::Apply(uint8_t* record) const {
  MutexLock lock(&mutex_);
  if (callback_ == nullptr) return;
  const ActivityKind kind = reinterpret_cast<const cupti::Activity*>(record)->kind;
  const bool of_device = IsDeviceWork(kind) || kind == ActivityKind::kCudaEvent;
  if (of_device && device_ == DeviceStamps::kStay) return;
  const Reading now = Read(callback_);
  const int64_t passed = now.real - first_.real;
  const double rate =
      passed < kShortestForARate
          ? 1.0
          : static_cast<double>(static_cast<int64_t>(now.other - first_.other)) / static_cast<double>(passed);
  ForEachStamp(record, [&](uint64_t* stamp) {
    if (*stamp == 0) return;
    const double since = static_cast<double>(static_cast<int64_t>(*stamp) - now.real);
    *stamp = now.other + static_cast<uint64_t>(static_cast<int64_t>(since * rate));
  });
}

}  // namespace lockstep::sim
