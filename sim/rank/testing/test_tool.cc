// An injected tool for tests. It captures all events from the start and writes them at process exit to the
// file LOCKSTEP_TEST_TOOL_OUT, with .RANK at the end of the name. Each event is one line:
//
//   record KIND CORRELATION START END EXTRA     external correlation: START is the id, END the correlation
//   push NS TEXT / pop NS
//   nccl start|stop|state TYPE DETAIL
//   init COMM NAME RANKS RANK
//   dropped N
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/mutex.h"
#include "wire/foreign/cupti.h"
#include "wire/foreign/nccl_profiler.h"
#include "wire/foreign/nvtx.h"

namespace {

namespace cupti = lockstep::foreign::cupti;
namespace nccl = lockstep::foreign::nccl;
namespace nvtx = lockstep::foreign::nvtx;
using cupti::ActivityKind;

lockstep::Mutex g_mutex;
// The text is never destroyed, because the last records come while the process ends.
std::string& g_text ABSL_GUARDED_BY(g_mutex) = *new std::string;
void* g_cupti = nullptr;

template <typename Fn>
Fn Cupti(const char* name) {
  return reinterpret_cast<Fn>(dlsym(g_cupti, name));
}

template <typename... Args>
void Say(const char* format, Args... args) {
  char line[512];
  snprintf(line, sizeof line, format, args...);
  lockstep::MutexLock lock(&g_mutex);
  g_text += line;
}

unsigned long long Timestamp() {
  uint64_t ns = 0;
  Cupti<cupti::GetTimestampFn>("cuptiGetTimestamp")(&ns);
  return ns;
}

void Requested(uint8_t** buffer, size_t* bytes, size_t* max_records) {
  *max_records = 0;
  *bytes = 64 * 1024;
  *buffer = static_cast<uint8_t*>(aligned_alloc(8, *bytes));
}

void PrintRecord(const cupti::Activity* r) {
  const auto kind = static_cast<unsigned>(r->kind);
  if (r->kind == ActivityKind::kConcurrentKernel) {
    const auto* k = reinterpret_cast<const cupti::Kernel10*>(r);
    Say("record %u %u %llu %llu %s\n", kind, k->correlation_id, (unsigned long long)k->start,
        (unsigned long long)k->end, k->name);
  } else if (r->kind == ActivityKind::kMemcpy) {
    const auto* m = reinterpret_cast<const cupti::Memcpy6*>(r);
    Say("record %u %u %llu %llu %llu\n", kind, m->correlation_id, (unsigned long long)m->start,
        (unsigned long long)m->end, (unsigned long long)m->bytes);
  } else if (r->kind == ActivityKind::kRuntime || r->kind == ActivityKind::kDriver) {
    const auto* a = reinterpret_cast<const cupti::Api*>(r);
    Say("record %u %u %llu %llu %u\n", kind, a->correlation_id, (unsigned long long)a->start,
        (unsigned long long)a->end, a->cbid);
  } else if (r->kind == ActivityKind::kSynchronization) {
    const auto* s = reinterpret_cast<const cupti::Synchronization2*>(r);
    Say("record %u %u %llu %llu %u\n", kind, s->correlation_id, (unsigned long long)s->start,
        (unsigned long long)s->end, static_cast<unsigned>(s->type));
  } else if (r->kind == ActivityKind::kExternalCorrelation) {
    const auto* e = reinterpret_cast<const cupti::ExternalCorrelation*>(r);
    Say("record %u 0 %llu %u x\n", kind, (unsigned long long)e->external_id, e->correlation_id);
  }
}

void Completed(cupti::Context, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  cupti::Activity* record = nullptr;
  const auto next = Cupti<cupti::ActivityGetNextRecordFn>("cuptiActivityGetNextRecord");
  while (next(buffer, valid, &record) == cupti::Result::kSuccess) PrintRecord(record);
  free(buffer);
}

__attribute__((destructor)) void WriteOut() {
  const char* out = getenv("LOCKSTEP_TEST_TOOL_OUT");
  if (g_cupti == nullptr || out == nullptr) return;
  Cupti<cupti::ActivityFlushAllFn>("cuptiActivityFlushAll")(0);
  size_t dropped = 0;
  Cupti<cupti::ActivityGetNumDroppedRecordsFn>("cuptiActivityGetNumDroppedRecords")(nullptr, 0, &dropped);
  Say("dropped %zu\n", dropped);
  const char* rank = getenv("OMPI_COMM_WORLD_RANK");
  FILE* file = fopen((std::string(out) + "." + (rank != nullptr ? rank : "0")).c_str(), "w");
  if (file == nullptr) return;
  {
    lockstep::MutexLock lock(&g_mutex);
    fwrite(g_text.data(), 1, g_text.size(), file);
  }
  fclose(file);
}

int Push(const char* text) {
  Say("push %llu %s\n", Timestamp(), text);
  return 0;
}
int Pop() {
  Say("pop %llu\n", Timestamp());
  return 0;
}

std::atomic<uint64_t> g_serial{1};

nccl::Result Init(void** context, uint64_t comm, int32_t* mask, const char* name, int32_t, int32_t ranks,
                  int32_t rank, nccl::Logger) {
  static int context_of_all;
  *context = &context_of_all;
  Say("init %llu %s %d %d\n", (unsigned long long)comm, name, ranks, rank);
  __atomic_store_n(mask,
                   nccl::kEventGroup | nccl::kEventColl | nccl::kEventP2p | nccl::kEventGroupApi |
                       nccl::kEventCollApi | nccl::kEventP2pApi | nccl::kEventKernelLaunch,
                   __ATOMIC_RELAXED);
  return nccl::Result::kSuccess;
}

nccl::Result StartEvent(void*, void** handle, nccl::EventDescriptor* d) {
  *handle = reinterpret_cast<void*>(static_cast<uintptr_t>(d->type));
  std::string detail = "-";
  if (d->type == nccl::kEventColl)
    detail = std::string(d->detail.coll.function) + " " + std::to_string(d->detail.coll.sequence) + " " +
             std::to_string(d->detail.coll.count);
  if (d->type == nccl::kEventP2p)
    detail = std::string(d->detail.p2p.function) + " " + std::to_string(d->detail.p2p.peer) + " " +
             std::to_string(d->detail.p2p.count);
  if (d->type == nccl::kEventKernelLaunch) {
    const uint64_t serial = g_serial++;
    Cupti<cupti::ActivityPushExternalCorrelationIdFn>("cuptiActivityPushExternalCorrelationId")(
        cupti::ExternalCorrelationKind::kCustom2, serial);
    detail = std::to_string(serial);
  }
  Say("nccl start %llu %s\n", (unsigned long long)d->type, detail.c_str());
  return nccl::Result::kSuccess;
}

nccl::Result StopEvent(void* handle) {
  const auto type = reinterpret_cast<uintptr_t>(handle);
  if (type == nccl::kEventKernelLaunch) {
    Cupti<cupti::ActivityPopExternalCorrelationIdFn>("cuptiActivityPopExternalCorrelationId")(
        cupti::ExternalCorrelationKind::kCustom2, nullptr);
  }
  Say("nccl stop %llu -\n", (unsigned long long)type);
  return nccl::Result::kSuccess;
}

nccl::Result RecordState(void*, nccl::EventState state, nccl::EventStateArgs*) {
  Say("nccl state %u -\n", static_cast<unsigned>(state));
  return nccl::Result::kSuccess;
}

nccl::Result Finalize(void*) { return nccl::Result::kSuccess; }

}  // namespace

#define LOCKSTEP_TEST_EXPORT extern "C" __attribute__((visibility("default")))

LOCKSTEP_TEST_EXPORT int InitializeInjection() {
  g_cupti = dlopen("libcupti.so.13", RTLD_NOLOAD | RTLD_NOW);
  if (g_cupti == nullptr) return 0;
  Cupti<cupti::ActivityRegisterCallbacksFn>("cuptiActivityRegisterCallbacks")(Requested, Completed);
  for (ActivityKind kind :
       {ActivityKind::kConcurrentKernel, ActivityKind::kMemcpy, ActivityKind::kRuntime, ActivityKind::kDriver,
        ActivityKind::kSynchronization, ActivityKind::kExternalCorrelation}) {
    Cupti<cupti::ActivityEnableFn>("cuptiActivityEnable")(kind);
  }
  return 1;
}

LOCKSTEP_TEST_EXPORT int InitializeInjectionNvtx2(nvtx::GetExportTableFn get_export_table) {
  const auto* callbacks =
      static_cast<const nvtx::ExportTableCallbacks*>(get_export_table(nvtx::ExportTable::kCallbacks));
  nvtx::FunctionTable table = nullptr;
  uint32_t slots = 0;
  if (callbacks->get_module_function_table(nvtx::Module::kCore, &table, &slots) == 0) return 0;
  *table[static_cast<uint32_t>(nvtx::Core::kRangePushA)] = reinterpret_cast<nvtx::FunctionPointer>(&Push);
  *table[static_cast<uint32_t>(nvtx::Core::kRangePop)] = reinterpret_cast<nvtx::FunctionPointer>(&Pop);
  return 1;
}

extern "C" __attribute__((visibility("default"))) const nccl::Profiler ncclProfiler_v5;
const nccl::Profiler ncclProfiler_v5 = {"test", Init, StartEvent, StopEvent, RecordState, Finalize};
