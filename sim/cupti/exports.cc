// Exports the functions of libcupti, except the callback API (exports_callbacks.cc). Signatures and results
// are CUPTI's. Without an attached rank or a simulated device, every function that needs a driver returns
// CUPTI_ERROR_UNKNOWN, as the real library does.
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "base/mutex.h"
#include "base/read_clock.h"
#include "sim/cupti/callback_names.h"
#include "sim/cupti/core.h"
#include "sim/cupti/library.h"
#include "sim/cupti/record_size.h"

namespace lockstep::sim {
namespace {

namespace cupti = foreign::cupti;
using cupti::ActivityKind;
using cupti::Result;

CuptiLibrary& Lib() { return CuptiLibrary::Get(); }
bool Usable() { return Lib().Usable(); }

thread_local std::map<cupti::ExternalCorrelationKind, std::vector<uint64_t>> t_external_ids;

Result Enable(ActivityKind kind, bool enabled) {
  if (!Usable()) return Result::kUnknown;
  if (RecordSize(kind, Lib().settings.version) == 0) return Result::kInvalidKind;
  if (Result refusal; enabled && Lib().RefusesToEnable(&refusal)) return refusal;
  Lib().hub.SetEnabled(kind, enabled, ReadClockNs(CLOCK_MONOTONIC));
  return Result::kSuccess;
}

uint32_t ThreadIdOfCaller() {
  if (Lib().thread_id_type.load() == cupti::ThreadIdType::kSystem)
    return static_cast<uint32_t>(syscall(SYS_gettid));
  return static_cast<uint32_t>(pthread_self());
}

size_t ExternalIds(SimExternalId* out, size_t capacity) {
  size_t n = 0;
  for (const auto& [kind, ids] : t_external_ids) {
    if (!ids.empty() && n < capacity) out[n++] = {kind, ids.back()};
  }
  return n;
}

constexpr SimCore kCore = {
    kSimCoreVersion,
    [](const SimDevice* device) { Lib().Attach(device); },
    [] { Lib().Detach(); },
    [](ActivityKind kind) { return Lib().hub.Wants(kind); },
    [](cupti::CallbackDomain domain, uint32_t cbid) { return Lib().hub.WantsCall(domain, cbid); },
    ThreadIdOfCaller,
    [](const void* record, size_t bytes) { return Lib().hub.Launch(record, bytes); },
    [](uint64_t ticket, int64_t start_ns, int64_t end_ns, int64_t release, Delivery delivery) {
      Lib().hub.Complete(ticket, start_ns, end_ns, release, delivery);
    },
    [](const void* record, size_t bytes, SimCall call, int64_t stamp_ns, int64_t release, Delivery delivery) {
      Lib().hub.Record(record, bytes, call, stamp_ns, release, delivery);
    },
    ExternalIds,
    [](int64_t now) { Lib().hub.Pump(now); },
    [](const SimLedgerEntry** entries) { return Lib().hub.Ledger(entries); },
    [](const void* record, size_t bytes, const void* handle) { Lib().AddObject(record, bytes, handle); },
    [](ActivityKind kind, uint32_t id) { Lib().RemoveObject(kind, id); },
    [] { return Lib().all_sync_records.load(std::memory_order_relaxed); },
    [] { return Lib().used(); },
    []() -> const CuptiSettings* { return &Lib().settings; },
    [](const SimCallSite* site) { Lib().Call(*site); },
};

}  // namespace

const SimCore& Core() { return kCore; }

}  // namespace lockstep::sim

namespace sim = lockstep::sim;
namespace cupti = lockstep::foreign::cupti;
using cupti::ActivityKind;
using cupti::Result;

LOCKSTEP_SIM_EXPORT const sim::SimCore* lockstep_sim_core(uint32_t version) {
  return version == sim::kSimCoreVersion ? &sim::Core() : nullptr;
}

LOCKSTEP_SIM_EXPORT Result cuptiGetVersion(uint32_t* version) {
  if (version == nullptr) return Result::kInvalidParameter;
  *version = sim::Lib().settings.version;
  return Result::kSuccess;
}

LOCKSTEP_SIM_EXPORT Result cuptiGetTimestamp(uint64_t* ns) {
  if (ns == nullptr) return Result::kInvalidParameter;
  *ns = sim::Lib().hub.timebase().Now();
  return Result::kSuccess;
}

LOCKSTEP_SIM_EXPORT Result cuptiGetResultString(Result result, const char** text) {
  if (text == nullptr) return Result::kInvalidParameter;
  switch (result) {
    case Result::kSuccess:
      *text = "CUPTI_SUCCESS";
      break;
    case Result::kInvalidParameter:
      *text = "CUPTI_ERROR_INVALID_PARAMETER";
      break;
    case Result::kMaxLimitReached:
      *text = "CUPTI_ERROR_MAX_LIMIT_REACHED";
      break;
    case Result::kNotInitialized:
      *text = "CUPTI_ERROR_NOT_INITIALIZED";
      break;
    case Result::kQueueEmpty:
      *text = "CUPTI_ERROR_QUEUE_EMPTY";
      break;
    case Result::kInvalidKind:
      *text = "CUPTI_ERROR_INVALID_KIND";
      break;
    case Result::kNotSupported:
      *text = "CUPTI_ERROR_NOT_SUPPORTED";
      break;
    case Result::kMultipleSubscribersNotSupported:
      *text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
      break;
    default:
      *text = "CUPTI_ERROR_UNKNOWN";
      break;
  }
  return Result::kSuccess;
}

LOCKSTEP_SIM_EXPORT Result cuptiSetThreadIdType(cupti::ThreadIdType type) {
  if (!sim::Usable()) return Result::kUnknown;
  sim::Lib().thread_id_type.store(type);
  return Result::kSuccess;
}

LOCKSTEP_SIM_EXPORT Result cuptiGetThreadIdType(cupti::ThreadIdType* type) {
  if (!sim::Usable()) return Result::kUnknown;
  if (type == nullptr) return Result::kInvalidParameter;
  *type = sim::Lib().thread_id_type.load();
  return Result::kSuccess;
}

LOCKSTEP_SIM_EXPORT Result cuptiGetCallbackName(cupti::CallbackDomain domain, uint32_t cbid,
                                                const char** name) {
  if (name == nullptr) return Result::kInvalidParameter;
  *name = sim::CallbackName(domain, cbid);
  return *name != nullptr ? Result::kSuccess : Result::kInvalidParameter;
}

LOCKSTEP_SIM_EXPORT Result cuptiActivityRegisterCallbacks(cupti::BufferRequested requested,
                                                          cupti::BufferCompleted completed) {
  if (requested == nullptr || completed == nullptr) return Result::kInvalidParameter;
  const bool usable = sim::Usable();
  if (sim::Lib().settings.exclusive && (sim::Lib().subscribed() || sim::Lib().HasRival()))
    return Result::kNotCompatible;
  if (usable) sim::Lib().hub.Register(requested, completed);
  return Result::kSuccess;
}

LOCKSTEP_SIM_EXPORT Result cuptiActivityEnable(ActivityKind kind) { return sim::Enable(kind, true); }
LOCKSTEP_SIM_EXPORT Result cuptiActivityDisable(ActivityKind kind) { return sim::Enable(kind, false); }

LOCKSTEP_SIM_EXPORT Result cuptiActivityEnableAndDump(ActivityKind kind) {
  const Result result = sim::Enable(kind, true);
  if (result == Result::kSuccess) sim::Lib().Dump(kind);
  return result;
}

// The simulation has no records for the calls of a single context.
LOCKSTEP_SIM_EXPORT Result cuptiActivityEnableContext(cupti::Context, ActivityKind kind) {
  return sim::Enable(kind, true);
}
LOCKSTEP_SIM_EXPORT Result cuptiActivityDisableContext(cupti::Context, ActivityKind kind) {
  return sim::Enable(kind, false);
}

LOCKSTEP_SIM_EXPORT Result cuptiActivityEnableRuntimeApi(uint32_t cbid, uint8_t enable) {
  if (!sim::Usable()) return Result::kUnknown;
  sim::Lib().hub.SetCallEnabled(cupti::CallbackDomain::kRuntimeApi, cbid, enable != 0,
                                lockstep::ReadClockNs(CLOCK_MONOTONIC));
  return Result::kSuccess;
}

LOCKSTEP_SIM_EXPORT Result cuptiActivityEnableDriverApi(uint32_t cbid, uint8_t enable) {
  if (!sim::Usable()) return Result::kUnknown;
  sim::Lib().hub.SetCallEnabled(cupti::CallbackDomain::kDriverApi, cbid, enable != 0,
                                lockstep::ReadClockNs(CLOCK_MONOTONIC));
  return Result::kSuccess;
}

LOCKSTEP_SIM_EXPORT Result cuptiActivityEnableAllSyncRecords(uint8_t enable) {
  if (!sim::Usable()) return Result::kUnknown;
  sim::Lib().all_sync_records.store(enable != 0);
  return Result::kSuccess;
}

// A null callback restores CUPTI's clock.
LOCKSTEP_SIM_EXPORT Result cuptiActivityRegisterTimestampCallback(cupti::TimestampCallback callback) {
  if (!sim::Usable()) return Result::kUnknown;
  const bool stay = sim::Lib().settings.version < cupti::kVersion_13_3 && sim::Lib().HasContext();
  sim::Lib().hub.timebase().Register(
      callback, stay ? sim::Timebase::DeviceStamps::kStay : sim::Timebase::DeviceStamps::kFollow);
  return Result::kSuccess;
}

LOCKSTEP_SIM_EXPORT Result cuptiActivityEnableHWTrace(uint8_t) {
  return sim::Usable() ? Result::kNotSupported : Result::kUnknown;
}

LOCKSTEP_SIM_EXPORT Result cuptiActivityFlushAll(uint32_t flags) {
  if (!sim::Usable()) return Result::kUnknown;
  const bool forced = (flags & cupti::kFlushForced) != 0;
  sim::Lib().hub.FlushAll(forced ? sim::ActivityHub::Flush::kForced : sim::ActivityHub::Flush::kComplete,
                          lockstep::ReadClockNs(CLOCK_MONOTONIC));
  return Result::kSuccess;
}

// The period has no effect, because full buffers are returned at once.
LOCKSTEP_SIM_EXPORT Result cuptiActivityFlushPeriod(uint32_t) {
  return sim::Usable() ? Result::kSuccess : Result::kUnknown;
}

LOCKSTEP_SIM_EXPORT Result cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid_bytes,
                                                      cupti::Activity** record) {
  if (record == nullptr || buffer == nullptr) return Result::kInvalidParameter;
  size_t at = 0;
  if (*record != nullptr) {
    const size_t size = sim::RecordSize((*record)->kind, sim::Lib().settings.version);
    if (size == 0) return Result::kInvalidKind;
    at = static_cast<size_t>(reinterpret_cast<uint8_t*>(*record) - buffer) + size;
  }
  if (at >= valid_bytes) return Result::kMaxLimitReached;
  auto* next = reinterpret_cast<cupti::Activity*>(buffer + at);
  if (sim::RecordSize(next->kind, sim::Lib().settings.version) == 0) return Result::kInvalidKind;
  *record = next;
  return Result::kSuccess;
}

LOCKSTEP_SIM_EXPORT Result cuptiActivityGetNumDroppedRecords(cupti::Context, uint32_t, size_t* dropped) {
  if (dropped == nullptr) return Result::kInvalidParameter;
  *dropped = sim::Usable() ? sim::Lib().hub.TakeDropped(lockstep::ReadClockNs(CLOCK_REALTIME)) : 0;
  return Result::kSuccess;
}

LOCKSTEP_SIM_EXPORT Result cuptiActivitySetAttribute(cupti::Attribute attribute, size_t* bytes, void* value) {
  if (!sim::Usable()) return Result::kUnknown;
  if (bytes == nullptr || value == nullptr || *bytes > 64) return Result::kInvalidParameter;
  sim::CuptiLibrary& library = sim::Lib();
  lockstep::MutexLock lock(&library.attributes_mutex);
  const auto* first = static_cast<const uint8_t*>(value);
  library.attributes[attribute].assign(first, first + *bytes);
  const bool on = std::any_of(first, first + *bytes, [](uint8_t b) { return b != 0; });
  if (attribute == cupti::Attribute::kPerThreadActivityBuffer) library.hub.SetPerThreadBuffers(on);
  if (attribute == cupti::Attribute::kZeroedOutActivityBuffer) library.hub.SetZeroedByTool(on);
  return Result::kSuccess;
}

LOCKSTEP_SIM_EXPORT Result cuptiActivityGetAttribute(cupti::Attribute attribute, size_t* bytes, void* value) {
  if (!sim::Usable()) return Result::kUnknown;
  if (bytes == nullptr || value == nullptr) return Result::kInvalidParameter;
  sim::CuptiLibrary& library = sim::Lib();
  lockstep::MutexLock lock(&library.attributes_mutex);
  const std::vector<uint8_t>& stored = library.attributes[attribute];
  std::memset(value, 0, *bytes);
  std::memcpy(value, stored.data(), std::min(*bytes, stored.size()));
  return Result::kSuccess;
}

LOCKSTEP_SIM_EXPORT Result cuptiActivityPushExternalCorrelationId(cupti::ExternalCorrelationKind kind,
                                                                  uint64_t id) {
  if (!sim::Usable()) return Result::kUnknown;
  if (kind == cupti::ExternalCorrelationKind::kInvalid || kind > cupti::ExternalCorrelationKind::kCustom2)
    return Result::kInvalidParameter;
  sim::t_external_ids[kind].push_back(id);
  return Result::kSuccess;
}

LOCKSTEP_SIM_EXPORT Result cuptiActivityPopExternalCorrelationId(cupti::ExternalCorrelationKind kind,
                                                                 uint64_t* last) {
  if (!sim::Usable()) return Result::kUnknown;
  std::vector<uint64_t>& ids = sim::t_external_ids[kind];
  if (ids.empty()) return Result::kQueueEmpty;
  if (last != nullptr) *last = ids.back();
  ids.pop_back();
  return Result::kSuccess;
}

LOCKSTEP_SIM_EXPORT Result cuptiFinalize() {
  if (sim::Usable()) sim::Lib().hub.Reset();
  return Result::kSuccess;
}

// Returns 0 (failure), as the real library does without a driver. A program that names this library in
// NVTX_INJECTION64_PATH therefore gets no ranges.
LOCKSTEP_SIM_EXPORT int InitializeInjectionNvtx2(void*) { return 0; }
