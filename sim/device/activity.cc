#include "sim/device/activity.h"

#include <time.h>
#include <unistd.h>

#include <limits>

#include "base/read_clock.h"

namespace lockstep::sim {
namespace {

namespace cupti = foreign::cupti;
using cupti::ActivityKind;

// Correlation of the API call that this thread is in; 0 outside a call.
thread_local uint32_t t_correlation = 0;
thread_local bool t_ids_recorded = false;

uint32_t IdIn(const void* record) {
  switch (static_cast<const cupti::Activity*>(record)->kind) {
    case ActivityKind::kDevice:
      return static_cast<const cupti::Device5*>(record)->id;
    case ActivityKind::kContext:
      return static_cast<const cupti::Context3*>(record)->context_id;
    default:
      return static_cast<const cupti::Stream*>(record)->stream_id;
  }
}

}  // namespace

int64_t MonotonicNs() { return ReadClockNs(CLOCK_MONOTONIC); }
int64_t RealtimeNs() { return ReadClockNs(CLOCK_REALTIME); }

int64_t RealtimeAheadNs() {
  constexpr int kTries = 8;
  constexpr int64_t kTightNs = 500;
  int64_t ahead = 0, tightest = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < kTries && tightest > kTightNs; ++i) {
    const int64_t before = MonotonicNs(), real = RealtimeNs(), after = MonotonicNs();
    if (after - before >= tightest) continue;
    tightest = after - before;
    ahead = real - before - tightest / 2;
  }
  return ahead;
}

void Activity::SetCore(const SimCore* core) {
  MutexLock lock(&mutex_);
  if (core_.load() != nullptr) return;
  for (const Object& o : objects_) core->object(o.record.data(), o.record.size(), o.handle);
  core_.store(core, std::memory_order_release);
}

bool Activity::Wants(ActivityKind kind) const {
  const SimCore* c = core();
  return c != nullptr && c->wants(kind);
}

bool Activity::used() const {
  const SimCore* c = core();
  return c != nullptr && c->used();
}

const CuptiSettings* Activity::settings() const {
  const SimCore* c = core();
  return c == nullptr ? nullptr : c->settings();
}

void Activity::AddObject(const void* record, size_t bytes, const void* handle) {
  const auto* first = static_cast<const uint8_t*>(record);
  MutexLock lock(&mutex_);
  objects_.push_back(
      {static_cast<const cupti::Activity*>(record)->kind, IdIn(record), handle, {first, first + bytes}});
  if (const SimCore* c = core()) c->object(record, bytes, handle);
}

void Activity::RemoveObject(ActivityKind kind, uint32_t id) {
  MutexLock lock(&mutex_);
  std::erase_if(objects_, [&](const Object& o) { return o.kind == kind && o.id == id; });
  if (const SimCore* c = core()) c->object_gone(kind, id);
}

bool Activity::Launch(const void* record, size_t bytes, uint64_t* ticket) {
  const SimCore* c = core();
  if (c == nullptr || !c->wants(static_cast<const cupti::Activity*>(record)->kind)) return false;
  *ticket = c->launch(record, bytes);
  return true;
}

void Activity::Finish(uint64_t ticket, int64_t start_ns, int64_t end_ns) {
  const int64_t real = RealtimeAheadNs();
  if (const SimCore* c = core())
    c->complete(ticket, real + start_ns, real + end_ns, end_ns, Delivery::kDeliver);
}

void Activity::Record(const void* record, size_t bytes, SimCall call, int64_t stamp_ns) {
  if (const SimCore* c = core()) c->record(record, bytes, call, stamp_ns, MonotonicNs(), Delivery::kDeliver);
}

void Activity::RecordLater(const void* record, size_t bytes, int64_t at_ns) {
  if (const SimCore* c = core()) {
    c->record(record, bytes, {}, at_ns + RealtimeAheadNs(), at_ns, Delivery::kDeliver);
  }
}

void Activity::Pump(int64_t now) {
  if (const SimCore* c = core()) c->pump(now);
}

ApiCall::ApiCall(Activity& activity, cupti::CallbackDomain domain, uint32_t cbid, const char* name,
                 const char* symbol)
    : activity_(activity),
      call_{domain, cbid},
      name_(name),
      symbol_(symbol),
      outermost_(t_correlation == 0),
      correlation_(outermost_ ? activity.NextCorrelation() : t_correlation) {
  t_correlation = correlation_;
  if (outermost_) t_ids_recorded = false;
  Site(cupti::CallbackSite::kEnter);
  start_ns_ = RealtimeNs();
}

void ApiCall::Site(cupti::CallbackSite site) {
  const SimCore* core = activity_.core();
  if (core == nullptr) return;
  SimCallSite at{call_.domain, call_.cbid, {}};
  at.data.site = site;
  at.data.function_name = name_;
  at.data.function_return_value = site == cupti::CallbackSite::kExit ? &result_ : nullptr;
  at.data.symbol_name = symbol_;
  at.data.context_id = kSimContextId;
  at.data.correlation_data = &subscriber_data_;
  at.data.correlation_id = correlation_;
  core->call(&at);
}

ApiCall::~ApiCall() {
  const int64_t end = RealtimeNs();
  const SimCore* core = activity_.core();
  if (core != nullptr && core->wants_call(call_.domain, call_.cbid)) {
    if (!t_ids_recorded && core->wants(ActivityKind::kExternalCorrelation)) {
      SimExternalId ids[8];
      const size_t n = core->external_ids(ids, 8);
      for (size_t i = 0; i < n; ++i) {
        cupti::ExternalCorrelation r{};
        r.kind = ActivityKind::kExternalCorrelation;
        r.external_kind = ids[i].kind;
        r.external_id = ids[i].id;
        r.correlation_id = correlation_;
        activity_.Record(&r, sizeof r, {}, end);
      }
      t_ids_recorded = true;
    }
    cupti::Api r{};
    r.kind =
        call_.domain == cupti::CallbackDomain::kDriverApi ? ActivityKind::kDriver : ActivityKind::kRuntime;
    r.cbid = call_.cbid;
    r.start = static_cast<uint64_t>(start_ns_);
    r.end = static_cast<uint64_t>(end);
    r.process_id = static_cast<uint32_t>(getpid());
    r.thread_id = core->thread_id();
    r.correlation_id = correlation_;
    r.return_value = static_cast<uint32_t>(result_);
    activity_.Record(&r, sizeof r, call_, start_ns_);
  }
  Site(cupti::CallbackSite::kExit);
  if (outermost_) t_correlation = 0;
}

}  // namespace lockstep::sim
