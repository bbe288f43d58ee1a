// The rings of application threads. A thread claims a ring at its first record in a capture. The ring is
// released when the thread or the capture ends.
//
// A handler with something to record calls Enter, writes through the slot, and calls Leave. To end a capture,
// the agent's thread closes the flags, and waits until no thread is between Enter and Leave. From then on all
// slots belong to it.
#ifndef LOCKSTEP_CLIENT_RECORD_RECORDER_H_
#define LOCKSTEP_CLIENT_RECORD_RECORDER_H_

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "client/record/arena.h"
#include "client/record/interner.h"
#include "client/record/nccl_thread.h"
#include "client/record/range_stack.h"
#include "client/record/recording_flags.h"
#include "client/record/timing.h"
#include "wire/ring/client_segment.h"
#include "wire/ring/writer.h"

namespace lockstep::client {

// The state of one recording thread. Only that thread uses it, between Enter and Leave.
struct alignas(64) ThreadSlot {
  ring::RingWriter ring;
  Interner names;
  RangeStack ranges;
  NcclThread nccl;
  uint64_t launch = 0;   // serial number of this thread's latest NCCL kernel launch; 0: none applies
  uint32_t thread = 0;   // gettid
  uint64_t outside = 0;  // records outside the window

 private:
  friend class Recorder;
  std::atomic<uint64_t> owner{0};  // capture whose thread has this slot, 0 = free, or a mark of the Recorder
  std::atomic<uint32_t> busy{0};   // 1 between Enter and Leave
  uint32_t index = 0;
};

struct RecorderTotals {
  uint64_t records = 0;
  uint64_t outside = 0;
};

class Recorder {
 public:
  constexpr explicit Recorder(RecordingFlags& flags) : flags_(flags) {}
  // Call it once. `on_thread_exit` runs in an ending thread, and must pass its argument to OnThreadExit.
  bool Init(void (*on_thread_exit)(void*));

  // ---- any thread ----
  // Returns null if nothing is recorded, or if no ring was free. In the second case the caller calls
  // CountNoRing.
  ThreadSlot* Enter();
  void Leave(ThreadSlot& slot);
  // Counts a record of `kind` that found no ring, if a capture is running.
  void CountNoRing(ring::RecordKind kind);
  // `close_ranges` is as in End.
  template <typename CloseRanges>
  void OnThreadExit(void* value, CloseRanges close_ranges);

  // ---- the agent's thread ----
  // `memory` is for the strings of all threads, and must stay until End. The flags open last.
  void Begin(uint64_t capture, const ring::ClientSegment& segment, Memory memory, StringIds& ids);
  // Closes the flags, waits up to 100 ms for handlers to leave, calls close_ranges(slot) for every slot in
  // use, and releases the rings. Returns false if a thread is stuck inside a handler; its slot stays in use
  // until it leaves.
  template <typename CloseRanges>
  bool End(const Timing& timing, RecorderTotals* totals, CloseRanges close_ranges);

 private:
  static constexpr uint32_t kSlots = ring::kMaxRings;  // slot i has ring i; 0 is CUPTI's ring and unused here
  static constexpr uint64_t kIndexBits = 8;

  // Marks of the owner word. kClaiming: the slot changes its owner. kAbandoned: the agent's thread gave up
  // waiting for the slot's thread, which then frees the slot in Leave.
  static constexpr uint64_t kClaiming = ~uint64_t{0};
  static constexpr uint64_t kAbandoned = ~uint64_t{0} - 1;

  // Claims a free slot for this thread, with busy set. Returns null if all are in use.
  ThreadSlot* Claim(uint64_t capture);
  ThreadSlot* ClaimAndEnter(uint64_t capture);
  // Releases a slot that no other thread may touch: the flags are closed and no thread is inside, or the slot
  // is the caller's.
  void Release(ThreadSlot& slot);
  // The same for a slot with the mark kClaiming. Its records are not counted.
  void Free(ThreadSlot& slot);
  // Returns true if no thread is inside, so that the caller may finish the slot of `capture_`.
  bool Reclaim(const Timing& timing, ThreadSlot& slot, bool* stuck);

  RecordingFlags& flags_;
  pthread_key_t key_ = 0;
  const ring::ClientSegment* segment_ = nullptr;
  Memory memory_;
  StringIds* ids_ = nullptr;
  uint64_t capture_ = 0;
  // Totals of the slots that ending threads released.
  std::atomic<uint64_t> ended_records_{0};
  std::atomic<uint64_t> ended_outside_{0};
  ThreadSlot slots_[kSlots];
};

template <typename CloseRanges>
void Recorder::OnThreadExit(void* value, CloseRanges close_ranges) {
  const auto tag = reinterpret_cast<uintptr_t>(value);
  ThreadSlot& slot = slots_[tag & ((1u << kIndexBits) - 1)];
  const uint64_t capture = tag >> kIndexBits;
  uint32_t outside = 0;
  if (flags_.capture.load() != capture || slot.owner.load() != capture ||
      !slot.busy.compare_exchange_strong(outside, 1)) {
    return;
  }
  // The flags decide which thread may touch the slot, as in Enter.
  if (flags_.capture.load() == capture && slot.owner.load() == capture) {
    close_ranges(slot);
    Release(slot);
  } else {
    Leave(slot);
  }
}

template <typename CloseRanges>
bool Recorder::End(const Timing& timing, RecorderTotals* totals, CloseRanges close_ranges) {
  flags_.Close();
  bool stuck = false;
  for (uint32_t i = 1; i < kSlots; ++i) {
    if (!Reclaim(timing, slots_[i], &stuck)) continue;
    close_ranges(slots_[i]);
    Release(slots_[i]);
  }
  totals->records += ended_records_.exchange(0);
  totals->outside += ended_outside_.exchange(0);
  return !stuck;
}

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_RECORD_RECORDER_H_
