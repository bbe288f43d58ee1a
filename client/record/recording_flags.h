// Flags that a hot path reads to learn whether to record. Idle calls cost one load and a branch.
//
// The flags fill a separate page, which the kernel clears in every child process (MADV_WIPEONFORK). A child
// finds all flags closed, however it was made. It does not inherit the rings, and so never touches them.
#ifndef LOCKSTEP_CLIENT_RECORD_RECORDING_FLAGS_H_
#define LOCKSTEP_CLIENT_RECORD_RECORDING_FLAGS_H_

#include <sys/mman.h>

#include <atomic>
#include <cstdint>

namespace lockstep::client {

inline constexpr size_t kPageBytes = 4096;

struct alignas(kPageBytes) RecordingFlags {
  // Serial number of the running capture, 0 = none. Only the agent's thread writes it.
  std::atomic<uint64_t> capture{0};
  // The same serial number while the capture wants NVTX ranges or NCCL events.
  std::atomic<uint64_t> nvtx{0};
  std::atomic<uint64_t> nccl{0};
  // 1 while the progress of communicators is followed (client/nccl/nccl_progress.h).
  std::atomic<uint64_t> progress{0};

  // Call it once, before the first capture. Returns false if the kernel cannot do it (before 4.14). Forked
  // children then rely on pthread_atfork alone.
  bool WipeInChildren() { return ::madvise(this, sizeof *this, MADV_WIPEONFORK) == 0; }
  void Close() {
    nvtx.store(0);
    nccl.store(0);
    progress.store(0);
    capture.store(0);
  }
};
static_assert(sizeof(RecordingFlags) == kPageBytes);

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_RECORD_RECORDING_FLAGS_H_
