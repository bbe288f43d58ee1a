#include "sim/cupti/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/read_clock.h"
#include "sim/cupti/device_record.h"

namespace lockstep::sim {
namespace {

namespace cupti = foreign::cupti;
using cupti::ActivityKind;

CuptiSettings KnobsOfEnvironment() {
  const char* error = nullptr;
  const CuptiSettings settings =
      CuptiSettings::Parse(getenv("SIMGPU_CUPTI_VERSION"), getenv("SIMGPU_CUPTI_FAULTS"), &error);
  if (error != nullptr) {
    std::fprintf(
        stderr,
        "simulated CUPTI: ignoring invalid value '%s'; sim/cupti/cupti_settings.h lists the valid ones\n",
        error);
  }
  return settings;
}

uint32_t IdIn(const void* record) {
  switch (static_cast<const cupti::Activity*>(record)->kind) {
    case ActivityKind::kDevice:
      return static_cast<const cupti::Device5*>(record)->id;
    case ActivityKind::kContext:
      return static_cast<const cupti::Context3*>(record)->context_id;
    case ActivityKind::kStream:
      return static_cast<const cupti::Stream*>(record)->stream_id;
    default:
      return 0;
  }
}

}  // namespace

CuptiLibrary::CuptiLibrary() : settings(KnobsOfEnvironment()), hub(settings) {
  hub.SetPerThreadBuffers(settings.version >= cupti::kVersion_13_0);
  if (settings.tsc_clock)
    hub.timebase().Register([] { return ReadTicks(); }, Timebase::DeviceStamps::kFollow);
}

CuptiLibrary& CuptiLibrary::Get() {
  static CuptiLibrary* const library = [] {
    auto* created = new CuptiLibrary;
    pthread_atfork([] { Get().LockForFork(); }, [] { Get().UnlockAfterFork(); },
                   [] { Get().UnlockAfterFork(); });
    return created;
  }();
  return *library;
}

void CuptiLibrary::LockForFork() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  mutex_.Lock();
  hub.LockForFork();
}

void CuptiLibrary::UnlockAfterFork() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  hub.UnlockAfterFork();
  mutex_.Unlock();
}

bool CuptiLibrary::Usable() {
  if (!attached_.load(std::memory_order_acquire)) FindDevice();
  if (!attached_.load(std::memory_order_acquire) || hub.DeviceLost()) return false;
  used_.store(true, std::memory_order_relaxed);
  int64_t never = 0;
  first_used_.compare_exchange_strong(never, ReadClockNs(CLOCK_MONOTONIC));
  return true;
}

void CuptiLibrary::FindDevice() {
  void* runtime = dlopen(kSimDeviceLibrary, RTLD_NOLOAD | RTLD_NOW);
  if (runtime == nullptr) return;
  const auto find = reinterpret_cast<SimDeviceFn>(dlsym(runtime, kSimDeviceSymbol));
  const SimDeviceCore* device = find == nullptr ? nullptr : find(kSimCoreVersion);
  if (device != nullptr && device->attach(&Core())) attached_.store(true, std::memory_order_release);
}

void CuptiLibrary::Attach(const SimDevice* device) {
  {
    MutexLock lock(&mutex_);
    objects_.clear();
  }
  const cupti::Device5 record = DeviceRecord(device->device, device->name, device->serial);
  AddObject(&record, sizeof record, nullptr);
  const cupti::Context3 context = ContextRecord(kSimContextId, device->device);
  AddObject(&context, sizeof context, nullptr);
  for (size_t i = 0; i < device->stream_count; ++i) {
    const uint32_t id = device->streams[i];
    const cupti::Stream stream =
        StreamRecord(kSimContextId, id, 0,
                     id == kNullStreamId ? cupti::StreamFlag::kNull : cupti::StreamFlag::kNonBlocking);
    AddObject(&stream, sizeof stream, nullptr);
  }
  attached_.store(true, std::memory_order_release);
}

void CuptiLibrary::Detach() {
  attached_.store(false, std::memory_order_release);
  used_.store(false, std::memory_order_relaxed);
  hub.timebase().Register(nullptr, Timebase::DeviceStamps::kFollow);
  hub.Reset();
}

void CuptiLibrary::AddObject(const void* record, size_t bytes, const void* handle) {
  const ActivityKind kind = static_cast<const cupti::Activity*>(record)->kind;
  const auto* first = static_cast<const uint8_t*>(record);
  {
    MutexLock lock(&mutex_);
    objects_.push_back({kind, IdIn(record), handle, {first, first + bytes}});
  }
  if (hub.Wants(kind)) {
    hub.Record(record, bytes, {}, ReadClockNs(CLOCK_REALTIME), ReadClockNs(CLOCK_MONOTONIC),
               Delivery::kDeliver);
  }
}

void CuptiLibrary::RemoveObject(ActivityKind kind, uint32_t id) {
  MutexLock lock(&mutex_);
  std::erase_if(objects_, [&](const Object& o) { return o.kind == kind && o.id == id; });
}

void CuptiLibrary::Dump(ActivityKind kind) {
  if (settings.no_objects) return;
  MutexLock lock(&mutex_);
  const int64_t now = ReadClockNs(CLOCK_MONOTONIC), stamp = ReadClockNs(CLOCK_REALTIME);
  for (const Object& o : objects_) {
    if (o.kind == kind) hub.Record(o.record.data(), o.record.size(), {}, stamp, now, Delivery::kDeliver);
  }
}

uint32_t CuptiLibrary::IdOf(ActivityKind kind, const void* handle) {
  MutexLock lock(&mutex_);
  for (const Object& o : objects_) {
    if (o.kind == kind && o.handle == handle) return o.id;
  }
  return 0;
}

uint32_t CuptiLibrary::FirstId(ActivityKind kind) {
  MutexLock lock(&mutex_);
  const auto first =
      std::find_if(objects_.begin(), objects_.end(), [&](const Object& o) { return o.kind == kind; });
  return first == objects_.end() ? 0 : first->id;
}

bool CuptiLibrary::HasContext() { return FirstId(ActivityKind::kContext) != 0; }

// ---- the subscriber ----

const std::string* CuptiLibrary::Subscribe(const Subscriber& subscriber, void** handle) {
  static const std::string* const rival = new std::string("Rival");
  if (HasRival()) return rival;
  MutexLock lock(&mutex_);
  if (subscribed_.load(std::memory_order_relaxed)) return &subscriber_.name;
  subscriber_ = subscriber;
  *handle = &subscriber_;
  subscribed_.store(true, std::memory_order_release);
  return nullptr;
}

bool CuptiLibrary::HasRival() const {
  return settings.rival_ms != 0 &&
         ReadClockNs(CLOCK_MONOTONIC) < first_used_.load() + int64_t{settings.rival_ms} * 1'000'000;
}

bool CuptiLibrary::RefusesToEnable(cupti::Result* result) {
  const uint32_t most = settings.not_initialized + settings.unknown;
  if (most == 0 || refused_.load() >= most) return false;
  *result = refused_.fetch_add(1) < settings.not_initialized ? cupti::Result::kNotInitialized
                                                             : cupti::Result::kUnknown;
  return true;
}

bool CuptiLibrary::Holds(const void* subscriber) {
  return subscriber == &subscriber_ && subscribed_.load(std::memory_order_acquire);
}

bool CuptiLibrary::Unsubscribe(const void* subscriber) {
  if (!Holds(subscriber)) return false;
  for (uint32_t domain = 0; domain < cupti::kCallbackDomains; ++domain) {
    EnableDomain(static_cast<cupti::CallbackDomain>(domain), false);
  }
  MutexLock lock(&mutex_);
  subscribed_.store(false, std::memory_order_release);
  return true;
}

void CuptiLibrary::EnableCall(cupti::CallbackDomain domain, uint32_t cbid, bool enable) {
  const auto d = static_cast<uint32_t>(domain);
  if (d < cupti::kCallbackDomains && cbid < kCallbackIds) calls_[d][cbid].store(enable);
}

void CuptiLibrary::EnableDomain(cupti::CallbackDomain domain, bool enable) {
  for (uint32_t cbid = 0; cbid < kCallbackIds; ++cbid) EnableCall(domain, cbid, enable);
}

void CuptiLibrary::Call(const SimCallSite& site) {
  const auto domain = static_cast<uint32_t>(site.domain);
  if (domain >= cupti::kCallbackDomains || site.cbid >= kCallbackIds) return;
  if (!calls_[domain][site.cbid].load(std::memory_order_relaxed)) return;
  Subscriber to;
  {
    MutexLock lock(&mutex_);
    if (!subscribed_.load(std::memory_order_relaxed)) return;
    to = subscriber_;
  }
  to.callback(to.user_data, site.domain, site.cbid, &site.data);
}

}  // namespace lockstep::sim
