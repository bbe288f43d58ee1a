// The rings of application threads: claimed at a thread's first record in a capture, given back when the
// thread or the capture ends.
//
// A handler that has something to record calls Enter, writes through the slot, calls Leave. Our thread ends a
// capture by closing the gate and waiting until nobody is between Enter and Leave; from then on every slot is
// its own.
#ifndef LOCKSTEP_CLIENT_RECORDER_H_
#define LOCKSTEP_CLIENT_RECORDER_H_

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "client/gate.h"
#include "client/record/arena.h"
#include "client/record/interner.h"
#include "client/record/nccl_thread.h"
#include "client/record/range_stack.h"
#include "client/record/timing.h"
#include "wire/ring/client_segment.h"
#include "wire/ring/writer.h"

namespace lockstep::client {

// What one thread has while it records. Only between Enter and Leave, by that thread.
struct alignas(64) ThreadSlot {
  ring::RingWriter ring;
  Interner names;
  RangeStack ranges;
  NcclThread nccl;
  uint64_t launch = 0;   // serial of the NCCL kernel launched last on this thread, 0 = none that counts
  uint32_t thread = 0;   // gettid
  uint64_t outside = 0;  // records seen outside the window

 private:
  friend class Recorder;
  std::atomic<uint64_t> owner{0};  // capture whose thread has this slot, 0 = free, or a mark of Recorder's
  std::atomic<uint32_t> busy{0};   // 1 between Enter and Leave
  uint32_t index = 0;
};

struct RecorderTotals {
  uint64_t records = 0;
  uint64_t outside = 0;
};

class Recorder {
 public:
  constexpr explicit Recorder(Gate& gate) : gate_(gate) {}
  // Once. `on_thread_exit` runs in an ending thread with the value to hand to OnThreadExit.
  bool Init(void (*on_thread_exit)(void*));

  // ---- any thread ----
  // Null: nothing is recorded, or no ring was free (then the caller counts its record by CountNoRing).
  ThreadSlot* Enter();
  void Leave(ThreadSlot& slot);
  // A record of `kind` found no ring. Counts only while a capture is on.
  void CountNoRing(ring::RecordKind kind);
  // `close_ranges` as in End.
  template <typename CloseRanges>
  void OnThreadExit(void* value, CloseRanges close_ranges);

  // ---- our thread ----
  // `memory` is kept until End: the strings of all threads. The gate opens last.
  void Begin(uint64_t capture, const ring::ClientSegment& segment, Memory memory, StringIds& ids);
  // Closes the gate, waits up to 100 ms for handlers to leave, calls close_ranges(slot) for every slot in use
  // and gives the rings back. False: a thread is stuck inside a handler; its slot stays taken until it
  // leaves.
  template <typename CloseRanges>
  bool End(const Timing& timing, RecorderTotals* totals, CloseRanges close_ranges);

 private:
  static constexpr uint32_t kSlots = ring::kMaxRings;  // slot i has ring i; 0 is CUPTI's and stays unused
  static constexpr uint64_t kIndexBits = 8;

  // Owner marks. A slot is claimed while it changes hands; abandoned when our thread gave up waiting
  // for its thread, which then frees it in Leave.
  static constexpr uint64_t kClaiming = ~uint64_t{0};
  static constexpr uint64_t kAbandoned = ~uint64_t{0} - 1;

  // Free slot → this thread's, with busy set; null when all are taken.
  ThreadSlot* Claim(uint64_t capture);
  ThreadSlot* ClaimAndEnter(uint64_t capture);
  // Of a slot nobody else may touch: closed gate and nobody inside, or the thread's own.
  void Release(ThreadSlot& slot);
  // The same for a slot marked kClaiming: gives it back without counting its records.
  void Free(ThreadSlot& slot);
  // True: nobody is inside and the slot is `capture_`'s to finish.
  bool TakeBack(const Timing& timing, ThreadSlot& slot, bool* stuck);

  Gate& gate_;
  pthread_key_t key_ = 0;
  const ring::ClientSegment* segment_ = nullptr;
  Memory memory_;
  StringIds* ids_ = nullptr;
  uint64_t capture_ = 0;
  // Of slots given back by ending threads.
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
  if (gate_.capture.load() != capture || slot.owner.load() != capture ||
      !slot.busy.compare_exchange_strong(outside, 1)) {
    return;
  }
  // The gate decides who may touch the slot, exactly as in Enter.
  if (gate_.capture.load() == capture && slot.owner.load() == capture) {
    close_ranges(slot);
    Release(slot);
  } else {
    Leave(slot);
  }
}

template <typename CloseRanges>
bool Recorder::End(const Timing& timing, RecorderTotals* totals, CloseRanges close_ranges) {
  gate_.Close();
  bool stuck = false;
  for (uint32_t i = 1; i < kSlots; ++i) {
    if (!TakeBack(timing, slots_[i], &stuck)) continue;
    close_ranges(slots_[i]);
    Release(slots_[i]);
  }
  totals->records += ended_records_.exchange(0);
  totals->outside += ended_outside_.exchange(0);
  return !stuck;
}

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_RECORDER_H_
