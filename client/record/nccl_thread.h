// The NCCL state of one application thread during a capture: the open calls that NVTX shows, and their
// reductions. The profiler plugin describes the same operations later in the same call.
#ifndef LOCKSTEP_CLIENT_RECORD_NCCL_THREAD_H_
#define LOCKSTEP_CLIENT_RECORD_NCCL_THREAD_H_

#include <cstdint>
#include <cstring>

namespace lockstep::client {

// Plain values of a ThreadSlot. Only the slot's thread uses them.
struct NcclThread {
  static constexpr uint32_t kReductions = 32;

  // A reduction that NVTX showed and the plugin has not described yet.
  struct Reduction {
    uint64_t comm;
    uint64_t bytes;
    const char* name;  // lives as long as the process
    char function[16];
  };

  uint32_t depth = 0;      // open NCCL ranges of this thread that were pushed in this capture
  uint32_t group = 0;      // open ncclGroupStart calls
  uint32_t pushed_at = 0;  // depth of the range around which `launch` is pushed to CUPTI; 0: none
  uint64_t launch = 0;     // serial number of the launch of the open call or group; 0: none
  bool begun = false;      // leftovers of an earlier capture on this thread are removed
  uint32_t reductions = 0;
  Reduction pending[kReductions] = {};

  void Clear() {
    depth = group = pushed_at = reductions = 0;
    launch = 0;
    begun = false;
  }

  // Without a free place, the oldest reduction is dropped. This needs a group of more than kReductions.
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

  // Returns null if NVTX showed no such operation. `comm` may be 0, because NCCL before 2.25 does not show it
  // through NVTX.
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

#endif  // LOCKSTEP_CLIENT_RECORD_NCCL_THREAD_H_
