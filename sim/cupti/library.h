// The state behind the exported functions: one per process by its nature, as in the real library. Any thread.
#ifndef LOCKSTEP_SIM_CUPTI_LIBRARY_H_
#define LOCKSTEP_SIM_CUPTI_LIBRARY_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "sim/cupti/activity_hub.h"
#include "sim/cupti/core.h"

#define LOCKSTEP_SIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace lockstep::sim {

// The one tool that may have API callbacks.
struct Subscriber {
  foreign::cupti::CallbackFn callback = nullptr;
  void* user_data = nullptr;
  std::string name;
};

class CuptiLibrary {
 public:
  // Never destroyed: the tool's threads may still call while the process ends.
  static CuptiLibrary& Get();

  // False: no rank attached and no simulated device in the process, so that whatever needs a driver returns
  // CUPTI_ERROR_UNKNOWN. A tool's call; from then on CUPTI counts as used.
  bool Usable();
  bool used() const { return used_.load(std::memory_order_relaxed); }

  void Attach(const SimDevice* device);
  void Detach();
  void AddObject(const void* record, size_t bytes, const void* handle);
  void RemoveObject(foreign::cupti::ActivityKind kind, uint32_t id);
  // Records of all objects of a kind that exist.
  void Dump(foreign::cupti::ActivityKind kind);
  // The id of the object of this kind that the application knows as `handle`; 0 when there is none.
  uint32_t IdOf(foreign::cupti::ActivityKind kind, const void* handle);
  // The first of a kind; 0 when there is none.
  uint32_t FirstId(foreign::cupti::ActivityKind kind);
  bool HasContext();

  // Null, and the subscriber's handle, when the place was free; else the holder's name, until Unsubscribe.
  const std::string* Subscribe(const Subscriber& subscriber, void** handle);
  bool Unsubscribe(const void* subscriber);
  bool Holds(const void* subscriber);
  bool subscribed() const { return subscribed_.load(std::memory_order_acquire); }
  void EnableCall(foreign::cupti::CallbackDomain domain, uint32_t cbid, bool enable);
  void EnableDomain(foreign::cupti::CallbackDomain domain, bool enable);
  void Call(const SimCallSite& site);

  const CuptiKnobs knobs;
  ActivityHub hub;
  std::atomic<foreign::cupti::ThreadIdType> thread_id_type{foreign::cupti::ThreadIdType::kDefault};
  std::atomic<bool> all_sync_records{true};
  std::mutex attributes_mutex;
  std::map<foreign::cupti::Attribute, std::vector<uint8_t>> attributes;

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

  std::atomic<bool> attached_{false};
  std::atomic<bool> used_{false};
  std::mutex mutex_;
  std::vector<Object> objects_;
  Subscriber subscriber_;
  std::atomic<bool> subscribed_{false};
  std::atomic<bool> calls_[foreign::cupti::kCallbackDomains][kCallbackIds] = {};
};

// What a rank or the device calls; exports.cc has it.
const SimCore& Core();

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_CUPTI_LIBRARY_H_
