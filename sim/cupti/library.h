// Holds the state behind the exported functions. A process has one, as with the real library. Any thread may
// call it.
#ifndef LOCKSTEP_SIM_CUPTI_LIBRARY_H_
#define LOCKSTEP_SIM_CUPTI_LIBRARY_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "sim/cupti/activity_hub.h"
#include "sim/cupti/core.h"

#define LOCKSTEP_SIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace lockstep::sim {

// The one tool that receives API callbacks.
struct Subscriber {
  foreign::cupti::CallbackFn callback = nullptr;
  void* user_data = nullptr;
  std::string name;
};

class CuptiLibrary {
 public:
  // The object is never destroyed, because threads of the tool may still call while the process ends.
  static CuptiLibrary& Get();

  // Marks CUPTI as used; called for each call of a tool. Returns false without an attached rank or a
  // simulated device. Functions that need a driver then return CUPTI_ERROR_UNKNOWN.
  bool Usable();
  bool used() const { return used_.load(std::memory_order_relaxed); }

  void Attach(const SimDevice* device);
  void Detach();
  void AddObject(const void* record, size_t bytes, const void* handle);
  void RemoveObject(foreign::cupti::ActivityKind kind, uint32_t id);
  // Records all existing objects of a kind.
  void Dump(foreign::cupti::ActivityKind kind);
  // Returns the id of the object of this kind with the application's `handle`, or 0 if none has it.
  uint32_t IdOf(foreign::cupti::ActivityKind kind, const void* handle);
  // Returns the first id of a kind, or 0 if the kind has no object.
  uint32_t FirstId(foreign::cupti::ActivityKind kind);
  bool HasContext();

  // Registers a subscriber. Returns null and sets `handle` if no other subscriber exists. Otherwise it
  // returns the other subscriber's name, which is valid until Unsubscribe.
  const std::string* Subscribe(const Subscriber& subscriber, void** handle);
  bool Unsubscribe(const void* subscriber);
  bool Holds(const void* subscriber);
  // True while the other tool of the fault rival is subscribed.
  bool HasRival() const;
  // True if a request to enable a kind must fail with `*result`, by the faults not_initialized and unknown.
  bool RefusesToEnable(foreign::cupti::Result* result);
  bool subscribed() const { return subscribed_.load(std::memory_order_acquire); }
  void EnableCall(foreign::cupti::CallbackDomain domain, uint32_t cbid, bool enable);
  void EnableDomain(foreign::cupti::CallbackDomain domain, bool enable);
  void Call(const SimCallSite& site);

  const CuptiSettings settings;
  ActivityHub hub;  // thread-safe
  std::atomic<foreign::cupti::ThreadIdType> thread_id_type{foreign::cupti::ThreadIdType::kDefault};
  std::atomic<bool> all_sync_records{true};
  Mutex attributes_mutex;
  std::map<foreign::cupti::Attribute, std::vector<uint8_t>> attributes ABSL_GUARDED_BY(attributes_mutex);

 private:
  struct Object {
    foreign::cupti::ActivityKind kind;
    uint32_t id;
    const void* handle;
    std::vector<uint8_t> record;
  };
  static constexpr uint32_t kCallbackIds = 1024;

  CuptiLibrary();
  void FindDevice();
  void LockForFork();
  void UnlockAfterFork();

  std::atomic<bool> attached_{false};
  std::atomic<bool> used_{false};
  std::atomic<int64_t> first_used_{0};  // CLOCK_MONOTONIC; 0: not yet
  std::atomic<uint32_t> refused_{0};    // requests to enable a kind
  Mutex mutex_;
  std::vector<Object> objects_ ABSL_GUARDED_BY(mutex_);
  Subscriber subscriber_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> subscribed_{false};
  std::atomic<bool> calls_[foreign::cupti::kCallbackDomains][kCallbackIds] = {};
};

// The functions for a rank or the device, defined in exports.cc.
const SimCore& Core();

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_CUPTI_LIBRARY_H_
