// Reports the simulated device's API calls, device work and objects to CUPTI, if CUPTI is loaded. Any thread
// may call it.
#ifndef LOCKSTEP_SIM_DEVICE_ACTIVITY_H_
#define LOCKSTEP_SIM_DEVICE_ACTIVITY_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/mutex.h"
#include "sim/cupti/core.h"

namespace lockstep::sim {

int64_t MonotonicNs();
int64_t RealtimeNs();
// Returns CLOCK_REALTIME minus CLOCK_MONOTONIC, from the closest of several pairs of reads. A preemption
// between two reads would shift a time stamp, so that kernels of one stream would overlap.
int64_t RealtimeAheadNs();

class Activity {
 public:
  // Reports the existing objects to `core`, and every later event. Called at most once.
  void SetCore(const SimCore* core);
  const SimCore* core() const { return core_.load(std::memory_order_acquire); }

  bool Wants(foreign::cupti::ActivityKind kind) const;
  // Returns whether a tool has used CUPTI.
  bool used() const;
  const CuptiSettings* settings() const;
  uint32_t NextCorrelation() { return correlation_.fetch_add(1, std::memory_order_relaxed) + 1; }

  void AddObject(const void* record, size_t bytes, const void* handle);
  void RemoveObject(foreign::cupti::ActivityKind kind, uint32_t id);

  // Reports device work at its launch. Returns true if the tool wants its record; Finish must then follow.
  bool Launch(const void* record, size_t bytes, uint64_t* ticket);
  // Times are CLOCK_MONOTONIC nanoseconds.
  void Finish(uint64_t ticket, int64_t start_ns, int64_t end_ns);
  // Takes a host record on the thread that it describes.
  void Record(const void* record, size_t bytes, SimCall call, int64_t stamp_ns);
  // Takes the record of a CUDA event that the device reaches at `at_ns` (CLOCK_MONOTONIC).
  void RecordLater(const void* record, size_t bytes, int64_t at_ns);
  void Pump(int64_t now);

 private:
  struct Object {
    foreign::cupti::ActivityKind kind;
    uint32_t id;
    const void* handle;
    std::vector<uint8_t> record;
  };
  std::atomic<const SimCore*> core_{nullptr};
  std::atomic<uint32_t> correlation_{0};
  Mutex mutex_;
  std::vector<Object> objects_ ABSL_GUARDED_BY(mutex_);
};

// One API call, for as long as the object lives. It has a correlation, a record, the external ids of its
// thread and the subscriber's callbacks. A call inside another one, such as a driver call of the runtime, has
// the same correlation.
class ApiCall {
 public:
  ApiCall(Activity& activity, foreign::cupti::CallbackDomain domain, uint32_t cbid, const char* name,
          const char* symbol = nullptr);
  ~ApiCall();
  ApiCall(const ApiCall&) = delete;
  ApiCall& operator=(const ApiCall&) = delete;

  uint32_t correlation() const { return correlation_; }
  void set_result(int32_t result) { result_ = result; }

 private:
  void Site(foreign::cupti::CallbackSite site);

  Activity& activity_;
  const SimCall call_;
  const char* const name_;
  const char* const symbol_;
  const bool outermost_;
  const uint32_t correlation_;
  int32_t result_ = 0;
  uint64_t subscriber_data_ = 0;
  int64_t start_ns_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_DEVICE_ACTIVITY_H_
