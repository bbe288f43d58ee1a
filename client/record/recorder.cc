#include "client/record/recorder.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace lockstep::client {

bool Recorder::Init(void (*on_thread_exit)(void*)) {
  return ::pthread_key_create(&key_, on_thread_exit) == 0;
}

ThreadSlot* Recorder::Enter() {
  const uint64_t capture = flags_.capture.load(std::memory_order_acquire);
  if (capture == 0) return nullptr;
  const auto tag = reinterpret_cast<uintptr_t>(::pthread_getspecific(key_));
  if (tag >> kIndexBits != capture) return ClaimAndEnter(capture);
  ThreadSlot* slot = &slots_[tag & ((1u << kIndexBits) - 1)];
  // If the slot is busy, we are already inside a handler (a signal handler, or a callback of CUPTI).
  uint32_t outside = 0;
  if (!slot->busy.compare_exchange_strong(outside, 1)) return nullptr;
  // Either the agent's thread sees busy and waits, or we see the closed flags and leave. This holds because
  // both sides are sequentially consistent.
  if (flags_.capture.load() != capture || slot->owner.load() != capture) {
    Leave(*slot);
    return nullptr;
  }
  return slot;
}

ThreadSlot* Recorder::ClaimAndEnter(uint64_t capture) {
  ThreadSlot* slot = Claim(capture);
  if (slot == nullptr || flags_.capture.load() == capture) return slot;
  // The capture has ended meanwhile. The agent's thread may have passed this slot when it was still free, so
  // this thread must release it. If the agent's thread comes later, it waits while the slot is marked.
  uint64_t owner = capture;
  if (slot->owner.compare_exchange_strong(owner, kClaiming)) {
    Free(*slot);
  } else {
    Leave(*slot);
  }
  return nullptr;
}

void Recorder::Leave(ThreadSlot& slot) {
  slot.busy.store(0);
  uint64_t abandoned = kAbandoned;
  if (slot.owner.load(std::memory_order_acquire) == kAbandoned)
    slot.owner.compare_exchange_strong(abandoned, 0);
}

void Recorder::CountNoRing(ring::RecordKind kind) {
  if (flags_.capture.load(std::memory_order_acquire) == 0) return;
  ring::CountLoss(segment_->header(), ring::LossReason::kNoRing, kind);
}

ThreadSlot* Recorder::Claim(uint64_t capture) {
  for (uint32_t i = 1; i < segment_->ring_count() && i < kSlots; ++i) {
    ThreadSlot& slot = slots_[i];
    uint64_t expected = 0;
    if (slot.owner.load(std::memory_order_relaxed) != 0 ||
        !slot.owner.compare_exchange_strong(expected, kClaiming))
      continue;
    slot.busy.store(1);
    slot.index = i;
    slot.thread = static_cast<uint32_t>(::syscall(SYS_gettid));
    // The slot's owner word keeps threads apart. The ring's own state is only for the daemon.
    ring::ClaimRing(segment_->ring(i), slot.thread);
    slot.ring = segment_->Writer(i);
    const size_t share = memory_.bytes / kSlots;
    slot.names.Reset({memory_.data + i * share, share}, ids_);
    slot.ranges.Clear();
    slot.nccl.Clear();
    slot.launch = 0;
    slot.outside = 0;
    ::pthread_setspecific(key_, reinterpret_cast<void*>(capture << kIndexBits | i));
    slot.owner.store(capture);
    return &slot;
  }
  return nullptr;
}

void Recorder::Release(ThreadSlot& slot) {
  slot.owner.store(kClaiming);
  slot.ring.Commit();
  slot.ring.FlushStatistics();
  ended_records_.fetch_add(slot.ring.records());
  ended_outside_.fetch_add(slot.outside);
  Free(slot);
}

void Recorder::Free(ThreadSlot& slot) {
  ring::ReleaseRing(segment_->ring(slot.index));
  // The order matters: once the slot has no owner, its busy word belongs to the next one.
  slot.busy.store(0);
  slot.owner.store(0);
}

void Recorder::Begin(uint64_t capture, const ring::ClientSegment& segment, Memory memory, StringIds& ids) {
  segment_ = &segment;
  memory_ = memory;
  ids_ = &ids;
  capture_ = capture;
  ended_records_ = 0;
  ended_outside_ = 0;
  flags_.capture.store(capture);
}

bool Recorder::Reclaim(const Timing& timing, ThreadSlot& slot, bool* stuck) {
  constexpr Nanos kLimit = Nanos::Millis(100);
  const MonoTime since = timing.monotonic();
  for (;;) {
    uint64_t owner = slot.owner.load();
    if (owner != capture_ && owner != kClaiming) return false;
    if (owner == capture_ && slot.busy.load() == 0) return true;
    if (timing.monotonic() - since > kLimit) break;
    timing.pause(Nanos::Micros(200));
  }
  *stuck = true;
  uint64_t owner = capture_;
  if (!slot.owner.compare_exchange_strong(owner, kAbandoned) || slot.busy.load() != 0) return false;
  // The thread left between the last check and the mark. Whichever side changes the mark back owns the slot.
  owner = kAbandoned;
  return slot.owner.compare_exchange_strong(owner, capture_);
}

}  // namespace lockstep::client
