// CUPTI's buffers. Any thread may borrow and return them, without locks or allocation. There are at most 64.
//
// The pool also has a queue (first in, first out) of buffers that returned while another thread was
// converting.
#ifndef LOCKSTEP_CLIENT_RECORD_BUFFER_POOL_H_
#define LOCKSTEP_CLIENT_RECORD_BUFFER_POOL_H_

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "client/record/arena.h"

namespace lockstep::client {

class BufferPool {
 public:
  static constexpr uint32_t kMost = 64;
  static constexpr uint32_t kNone = ~0u;

  constexpr BufferPool() = default;

  // Cuts `memory` into buffers of `buffer_bytes` (a multiple of 8), at most kMost. No buffer may be lent.
  void Init(Memory memory, size_t buffer_bytes) {
    base_ = memory.data;
    buffer_bytes_ = buffer_bytes;
    const size_t fit = memory.bytes / buffer_bytes;
    count_ = fit < kMost ? static_cast<uint32_t>(fit) : kMost;
    all_ = count_ == 64 ? ~uint64_t{0} : (uint64_t{1} << count_) - 1;
    free_.store(all_);
    queue_.store(kNone);
  }

  // Returns the free buffer with the lowest number, so that the same few stay in cache, or null if all are
  // lent. It begins with zeros.
  std::byte* Acquire() {
    uint64_t free = free_.load(std::memory_order_acquire);
    while (free != 0) {
      if (free_.compare_exchange_weak(free, free & (free - 1), std::memory_order_acquire)) {
        std::byte* buffer = base_ + static_cast<size_t>(std::countr_zero(free)) * buffer_bytes_;
        std::memset(buffer, 0, sizeof(uint32_t));  // for holding_records()
        return buffer;
      }
    }
    return nullptr;
  }

  // Returns the buffer's number, or kNone if the address is not a buffer of this pool.
  uint32_t NumberOf(const std::byte* buffer) const {
    if (base_ == nullptr || buffer < base_) return kNone;
    const auto offset = static_cast<size_t>(buffer - base_);
    if (offset % buffer_bytes_ != 0 || offset / buffer_bytes_ >= count_) return kNone;
    return static_cast<uint32_t>(offset / buffer_bytes_);
  }
  std::byte* at(uint32_t number) const { return base_ + number * buffer_bytes_; }

  void Release(uint32_t number) { free_.fetch_or(uint64_t{1} << number, std::memory_order_release); }
  // The number of lent or queued buffers.
  uint32_t in_use() const {
    return count_ - static_cast<uint32_t>(std::popcount(free_.load(std::memory_order_acquire)));
  }
  size_t buffer_bytes() const { return buffer_bytes_; }
  // The number of lent or queued buffers that do not begin with zeros. CUPTI may keep empty buffers. A record
  // begins with its kind, which is never 0.
  // Not checked for races: CUPTI may write a record meanwhile, and either answer is then right.
  __attribute__((no_sanitize("thread"))) uint32_t holding_records() const {
    uint32_t count = 0;
    for (uint64_t in_use = ~free_.load(std::memory_order_acquire) & all_; in_use != 0; in_use &= in_use - 1) {
      const auto number = static_cast<uint32_t>(std::countr_zero(in_use));
      count += *reinterpret_cast<const volatile uint32_t*>(at(number)) != 0 ? 1 : 0;
    }
    return count;
  }

  // ---- queue ----
  void Enqueue(uint32_t number, size_t valid_bytes) {
    valid_[number] = valid_bytes;
    uint32_t head = queue_.load(std::memory_order_relaxed);
    do {
      next_[number] = head;
    } while (!queue_.compare_exchange_weak(head, number));
  }
  bool queued() const { return queue_.load() != kNone; }
  // Takes all queued buffers and calls fn(number, valid_bytes), oldest first. One thread at a time may call
  // it.
  template <typename Fn>
  void DrainQueue(Fn fn) {
    uint32_t newest = queue_.exchange(kNone);
    uint32_t oldest = kNone;
    while (newest != kNone) {
      const uint32_t older = next_[newest];
      next_[newest] = oldest;
      oldest = newest;
      newest = older;
    }
    while (oldest != kNone) {
      const uint32_t number = oldest;
      oldest = next_[number];
      fn(number, valid_[number]);
    }
  }

 private:
  std::byte* base_ = nullptr;
  size_t buffer_bytes_ = 0;
  uint32_t count_ = 0;
  uint64_t all_ = 0;
  std::atomic<uint64_t> free_{0};
  std::atomic<uint32_t> queue_{kNone};
  uint32_t next_[kMost] = {};
  size_t valid_[kMost] = {};
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_RECORD_BUFFER_POOL_H_
