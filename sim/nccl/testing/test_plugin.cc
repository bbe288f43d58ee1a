// A profiler plugin for tests, with all six versions of NCCL's ABI. It writes one line per call to the file
// LOCKSTEP_TEST_PLUGIN_OUT. LOCKSTEP_TEST_PLUGIN_MASK is the mask of requested events.
//
//   init VERSION COMM RANKS RANK
//   start TYPE HANDLE PARENT THREAD FUNCTION COUNT SEQUENCE COMM
//   stop HANDLE THREAD / state HANDLE STATE
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

#include "base/mutex.h"
#include "wire/foreign/nccl_profiler.h"
#include "wire/foreign/nccl_profiler_old.h"

namespace {

namespace nccl = lockstep::foreign::nccl;
using nccl::Result;

lockstep::Mutex g_mutex;
std::atomic<uintptr_t> g_next{1};
int32_t* g_mask = nullptr;

template <typename... Args>
void Say(const char* format, Args... args) {
  static std::FILE* const out = std::fopen(std::getenv("LOCKSTEP_TEST_PLUGIN_OUT"), "a");
  lockstep::MutexLock lock(&g_mutex);
  std::fprintf(out, format, args...);
  std::fflush(out);
}

long Thread() { return syscall(SYS_gettid); }

Result Begin(int version, unsigned long long comm, int ranks, int rank, void** context, int32_t* mask) {
  *context = mask;
  g_mask = mask;
  const char* text = std::getenv("LOCKSTEP_TEST_PLUGIN_MASK");
  __atomic_store_n(mask, text == nullptr ? 0 : std::atoi(text), __ATOMIC_RELEASE);
  Say("init %d %llx %d %d\n", version, comm, ranks, rank);
  return Result::kSuccess;
}

template <int version>
Result InitOld(void** context, int32_t* mask) {
  return Begin(version, 0, 0, 0, context, mask);
}
Result Init4(void** context, int32_t* mask, const char*, uint64_t comm, int32_t, int32_t ranks, int32_t rank,
             nccl::Logger) {
  return Begin(4, comm, ranks, rank, context, mask);
}
template <int version>
Result Init(void** context, uint64_t comm, int32_t* mask, const char*, int32_t, int32_t ranks, int32_t rank,
            nccl::Logger) {
  return Begin(version, comm, ranks, rank, context, mask);
}

template <typename D>
Result Start(void*, void** handle, D* d) {
  *handle = reinterpret_cast<void*>(g_next.fetch_add(1));
  const char* function = "-";
  unsigned long long count = 0, sequence = 0, comm = 0;
  constexpr bool kNew =
      std::is_same_v<D, nccl::EventDescriptor> || std::is_same_v<D, nccl::EventDescriptorV4>;
  char number[8];
  if constexpr (kNew) {
    if (d->type == nccl::kEventColl) {
      function = d->detail.coll.function;
      count = d->detail.coll.count;
      sequence = d->detail.coll.sequence;
    } else if (d->type == nccl::kEventP2p) {
      function = d->detail.p2p.function;
      count = d->detail.p2p.count;
    } else if (d->type == nccl::kEventCollApi) {
      function = d->detail.coll_api.function;
      count = d->detail.coll_api.count;
    }
  } else if (d->type == nccl::kEventColl || d->type == nccl::kEventP2p) {
    const bool coll = d->type == nccl::kEventColl;
    count = coll ? d->coll.count : d->p2p.count;
    comm = coll ? d->coll.comm : d->p2p.comm;
    if (coll) sequence = d->coll.sequence;
    if constexpr (std::is_same_v<D, nccl::EventDescriptorV1>) {
      std::snprintf(number, sizeof number, "%u", unsigned{coll ? d->coll.function : d->p2p.function});
      function = number;
    } else {
      function = coll ? d->coll.function : d->p2p.function;
    }
  }
  Say("start %llu %p %p %ld %s %llu %llu %llx\n", static_cast<unsigned long long>(d->type), *handle,
      d->parent, Thread(), function, count, sequence, comm);
  return Result::kSuccess;
}

Result Stop(void* handle) {
  Say("stop %p %ld\n", handle, Thread());
  return Result::kSuccess;
}
Result State(void* handle, nccl::EventState state, nccl::EventStateArgs*) {
  Say("state %p %u\n", handle, static_cast<unsigned>(state));
  return Result::kSuccess;
}
Result StateOld(void* handle, nccl::EventState state, nccl::EventStateArgsOld*) {
  return State(handle, state, nullptr);
}
Result Finalize(void*) { return Result::kSuccess; }

}  // namespace

#define LOCKSTEP_PROFILER extern "C" __attribute__((visibility("default"))) const
LOCKSTEP_PROFILER nccl::ProfilerV1 ncclProfiler_v1 = {"test", InitOld<1>, Start<nccl::EventDescriptorV1>,
                                                      Stop,   StateOld,   Finalize};
LOCKSTEP_PROFILER nccl::ProfilerV2 ncclProfiler_v2 = {"test", InitOld<2>, Start<nccl::EventDescriptorV2>,
                                                      Stop,   StateOld,   Finalize};
LOCKSTEP_PROFILER nccl::ProfilerV3 ncclProfiler_v3 = {"test", InitOld<3>, Start<nccl::EventDescriptorV3>,
                                                      Stop,   StateOld,   Finalize};
LOCKSTEP_PROFILER nccl::ProfilerV4 ncclProfiler_v4 = {"test", Init4, Start<nccl::EventDescriptorV4>,
                                                      Stop,   State, Finalize};
LOCKSTEP_PROFILER nccl::Profiler ncclProfiler_v5 = {"test", Init<5>, Start<nccl::EventDescriptor>,
                                                    Stop,   State,   Finalize};
LOCKSTEP_PROFILER nccl::Profiler ncclProfiler_v6 = {"test", Init<6>, Start<nccl::EventDescriptor>,
                                                    Stop,   State,   Finalize};
