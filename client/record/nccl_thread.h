// What one application thread has in hand of NCCL while a capture records it: the calls that NVTX shows, and
// what they tell of operations that the profiler plugin describes later in the same call.
#ifndef LOCKSTEP_CLIENT_NCCL_THREAD_H_
#define LOCKSTEP_CLIENT_NCCL_THREAD_H_

#include <cstdint>
#include <cstring>

namespace lockstep::client {

// Plain values of a ThreadSlot; its thread only.
struct NcclThread {
  static constexpr uint32_t kReductions = 32;

  // A reduction that NVTX told of and the plugin has not described yet.
  struct Reduction {
    uint64_t comm;
    uint64_t bytes;
    const char* name;  // lives as long as the process
    char function[16];
  };

  uint32_t depth = 0;      // NCCL's ranges open on this thread, of those pushed in this capture
  uint32_t group = 0;      // ncclGroupStart without its end
  uint32_t pushed_at = 0;  // depth of the range around which `launch` is pushed to CUPTI; 0: none
  uint64_t launch = 0;     // serial of what the open call or group launches; 0: none
  bool begun = false;      // CUPTI's stack of this thread is known to hold nothing of an earlier capture
  uint32_t reductions = 0;
  Reduction pending[kReductions] = {};

  void Clear() {
    depth = group = pushed_at = reductions = 0;
    launch = 0;
    begun = false;
  }

  // The oldest goes when there is no place: a group of more than kReductions.
  void Remember(const char* function, uint64_t comm, uint64_t bytes, const char* name) {
    if (reductions == kReductions) {
      std::memmove(pending, pending + 1, sizeof pending - sizeof pending[0]);
      --reductions;
    }
    Reduction& r = pending[reductions++];
    r.comm = comm;
    r.bytes = bytes;
    r.name = name;
    size_t length = std::strlen(function);
    if (length > sizeof r.function - 1) length = sizeof r.function - 1;
    std::memcpy(r.function, function, length);
    r.function[length] = '\0';
  }

  // Null: NVTX told of no such operation. `comm` 0 in either: NCCL before 2.25 does not tell it over NVTX.
  const char* Take(const char* function, uint64_t comm, uint64_t bytes) {
    for (uint32_t i = 0; i < reductions; ++i) {
      const Reduction& r = pending[i];
      if (r.bytes != bytes || (r.comm != comm && r.comm != 0) || std::strcmp(r.function, function) != 0)
        continue;
      const char* name = r.name;
      std::memmove(pending + i, pending + i + 1, (reductions - i - 1) * sizeof pending[0]);
      --reductions;
      return name;
    }
    return nullptr;
  }
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_NCCL_THREAD_H_
