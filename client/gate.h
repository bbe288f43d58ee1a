// The words a hot path looks at to learn that there is nothing to do: one load and a branch while idle.
//
// They fill a page of their own which the kernel hands out zeroed in every child process (MADV_WIPEONFORK):
// whatever way a child was made, it finds every gate closed, and the rings, which it does not inherit, are
// never touched there.
#ifndef LOCKSTEP_CLIENT_GATE_H_
#define LOCKSTEP_CLIENT_GATE_H_

#include <sys/mman.h>

#include <atomic>
#include <cstdint>

namespace lockstep::client {

inline constexpr size_t kPageBytes = 4096;

struct alignas(kPageBytes) Gate {
  // Serial of the capture that records are made for, 0 = none. Written by our thread only.
  std::atomic<uint64_t> capture{0};
  // The same serial while that capture wants NVTX ranges, NCCL events.
  std::atomic<uint64_t> nvtx{0};
  std::atomic<uint64_t> nccl{0};

  // Once, before the first capture. False: the kernel cannot (before 4.14); forked children rely on
  // pthread_atfork alone.
  bool WipeInChildren() { return ::madvise(this, sizeof *this, MADV_WIPEONFORK) == 0; }
  void Close() {
    nvtx.store(0);
    nccl.store(0);
    capture.store(0);
  }
};
static_assert(sizeof(Gate) == kPageBytes);

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_GATE_H_
