// What the simulated device tells CUPTI, when there is one: calls, device work, objects. Any thread.
#ifndef LOCKSTEP_SIM_DEVICE_ACTIVITY_H_
#define LOCKSTEP_SIM_DEVICE_ACTIVITY_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "sim/cupti/core.h"

namespace lockstep::sim {

int64_t MonotonicNs();
int64_t RealtimeNs();
// By how much the second is ahead of the first. A thread that is preempted between two reads would move a
// stamp by that long, so that kernels of one stream overlap: the tightest of some reads.
int64_t RealtimeAheadNs();

class Activity {
 public:
  // From here on `core` is told everything, first the objects that there are. Not called twice.
  void SetCore(const SimCore* core);
  const SimCore* core() const { return core_.load(std::memory_order_acquire); }

  bool Wants(foreign::cupti::ActivityKind kind) const;
  // Has a tool used CUPTI yet?
  bool used() const;
  const CuptiKnobs* knobs() const;
  uint32_t NextCorrelation() { return correlation_.fetch_add(1, std::memory_order_relaxed) + 1; }

  void AddObject(const void* record, size_t bytes, const void* handle);
  void RemoveObject(foreign::cupti::ActivityKind kind, uint32_t id);

  // Device work given to the device now: false when nobody wants to know, else Finish must follow.
  bool Launch(const void* record, size_t bytes, uint64_t* ticket);
  // Times are CLOCK_MONOTONIC.
  void Finish(uint64_t ticket, int64_t start_ns, int64_t end_ns);
  // A host record, on the thread that it tells of.
  void Record(const void* record, size_t bytes, SimCall call, int64_t stamp_ns);
  // One that stands for something on the device at `at_ns` (CLOCK_MONOTONIC).
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
  std::mutex mutex_;
  std::vector<Object> objects_;
};

// One API call, from its construction to its end: its correlation, its record, the ids pushed on its thread,
// the subscriber's callbacks. A call made inside another one (the driver's, below the runtime's) has the same
// correlation.
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
