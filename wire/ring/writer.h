// The writing side of one ring: never blocks, never allocates, drops the newest record when the ring is full
// and counts it per (reason, kind). Header-only and free of the standard library's run time: the injected
// client uses it inside other people's processes.
//
// A RingWriter belongs to one thread at a time. Bytes reserved become visible to the reader at Commit, all at
// once.
#ifndef LOCKSTEP_COMMON_RING_WRITER_H_
#define LOCKSTEP_COMMON_RING_WRITER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "wire/ring/layout.h"
#include "wire/ring/record.h"

namespace lockstep::ring {

// One CAS, free→owned. `thread` is kept for messages only.
inline bool ClaimRing(RingHeader& ring, uint32_t thread) {
  uint32_t expected = static_cast<uint32_t>(RingState::kFree);
  if (!ring.state.compare_exchange_strong(expected, static_cast<uint32_t>(RingState::kOwned),
                                          std::memory_order_acquire, std::memory_order_relaxed)) {
    return false;
  }
  ring.owner_thread.store(thread, std::memory_order_relaxed);
  return true;
}

// The owner only, after its last Commit. The bytes stay until the reader has drained them.
inline void ReleaseRing(RingHeader& ring) {
  ring.state.store(static_cast<uint32_t>(RingState::kFree), std::memory_order_release);
}

inline void CountLoss(SegmentHeader& segment, LossReason reason, RecordKind kind, uint64_t records = 1) {
  LostCounter(segment, static_cast<size_t>(reason), static_cast<size_t>(kind))
      .fetch_add(records, std::memory_order_relaxed);
}

template <typename Record>
struct KindOf;
template <>
struct KindOf<KernelRecord> {
  static constexpr RecordKind value = RecordKind::kKernel;
};
template <>
struct KindOf<MemcpyRecord> {
  static constexpr RecordKind value = RecordKind::kMemcpy;
};
template <>
struct KindOf<MemsetRecord> {
  static constexpr RecordKind value = RecordKind::kMemset;
};
template <>
struct KindOf<ApiRecord> {
  static constexpr RecordKind value = RecordKind::kApi;
};
template <>
struct KindOf<SyncRecord> {
  static constexpr RecordKind value = RecordKind::kSync;
};
template <>
struct KindOf<ExternalCorrelationRecord> {
  static constexpr RecordKind value = RecordKind::kExternalCorrelation;
};
template <>
struct KindOf<CudaEventRecord> {
  static constexpr RecordKind value = RecordKind::kCudaEvent;
};
template <>
struct KindOf<OverheadRecord> {
  static constexpr RecordKind value = RecordKind::kOverhead;
};
template <>
struct KindOf<RangeRecord> {
  static constexpr RecordKind value = RecordKind::kRange;
};
template <>
struct KindOf<CommunicatorRecord> {
  static constexpr RecordKind value = RecordKind::kCommunicator;
};
template <>
struct KindOf<CollectiveRecord> {
  static constexpr RecordKind value = RecordKind::kCollective;
};
template <>
struct KindOf<PointToPointRecord> {
  static constexpr RecordKind value = RecordKind::kPointToPoint;
};
template <>
struct KindOf<ClockRecord> {
  static constexpr RecordKind value = RecordKind::kClock;
};
template <>
struct KindOf<KernelChannelRecord> {
  static constexpr RecordKind value = RecordKind::kKernelChannel;
};
template <>
struct KindOf<ProxyOpRecord> {
  static constexpr RecordKind value = RecordKind::kProxyOp;
};
template <>
struct KindOf<ThreadNameRecord> {
  static constexpr RecordKind value = RecordKind::kThreadName;
};
template <>
struct KindOf<DeviceRecord> {
  static constexpr RecordKind value = RecordKind::kDevice;
};
template <>
struct KindOf<ContextRecord> {
  static constexpr RecordKind value = RecordKind::kContext;
};
template <>
struct KindOf<StreamRecord> {
  static constexpr RecordKind value = RecordKind::kStream;
};
template <>
struct KindOf<MemoryOpRecord> {
  static constexpr RecordKind value = RecordKind::kMemoryOp;
};

class RingWriter {
 public:
  constexpr RingWriter() = default;

  // `capacity` comes from a checked SegmentGeometry; `bytes` is the ring's first byte. Goes on where the
  // ring's last owner stopped.
  RingWriter(SegmentHeader& segment, RingHeader& ring, std::byte* bytes, uint64_t capacity)
      : segment_(&segment),
        ring_(&ring),
        bytes_(bytes),
        capacity_(capacity),
        published_(ring.head.load(std::memory_order_acquire)),
        head_(published_),
        tail_(ring.tail.load(std::memory_order_acquire)) {}

  bool attached() const { return ring_ != nullptr; }

  // Space for one record with its header filled in, or null when the ring is full (counted). `bytes` is a
  // multiple of 8 and at most kMaxRecordBytes. The caller fills every other field, then calls Commit.
  void* Reserve(RecordKind kind, uint32_t bytes) {
    const uint64_t position = head_ & (capacity_ - 1);
    const uint64_t to_end = capacity_ - position;
    const uint64_t pad = bytes > to_end ? to_end : 0;
    if (head_ + pad + bytes - tail_ > capacity_ && !MakeRoom(pad + bytes)) {
      CountLoss(*segment_, LossReason::kRingFull, kind);
      return nullptr;
    }
    if (pad != 0) {
      const RecordHeader filler{RecordKind::kPad, 0, static_cast<uint32_t>(pad)};
      std::memcpy(bytes_ + position, &filler, sizeof filler);
      head_ += pad;
    }
    std::byte* place = bytes_ + (head_ & (capacity_ - 1));
    const RecordHeader header{kind, 0, bytes};
    std::memcpy(place, &header, sizeof header);
    head_ += bytes;
    ++records_;
    ++written_[static_cast<size_t>(kind)];
    return place;
  }

  // Typed form of Reserve; only the header is set.
  template <typename Record>
  Record* New() {
    return static_cast<Record*>(Reserve(KindOf<Record>::value, sizeof(Record)));
  }

  void Commit() {
    published_ = head_;
    ring_->head.store(head_, std::memory_order_release);
  }

  // A kString record, not yet committed; false when the ring is full, and then the id is not defined. Text
  // above kMaxStringBytes is cut and counted.
  bool DefineString(uint32_t id, const char* text, size_t length) {
    if (length > kMaxStringBytes) {
      length = kMaxStringBytes;
      CountLoss(*segment_, LossReason::kTooLarge, RecordKind::kString);
    }
    const uint32_t bytes = (static_cast<uint32_t>(sizeof(StringRecord) + length) + 7u) & ~7u;
    auto* record = static_cast<StringRecord*>(Reserve(RecordKind::kString, bytes));
    if (record == nullptr) return false;
    record->id = id;
    record->length = static_cast<uint32_t>(length);
    char* to = reinterpret_cast<char*>(record + 1);
    std::memcpy(to, text, length);
    std::memset(to + length, 0, bytes - sizeof(StringRecord) - length);
    return true;
  }

  void Lose(LossReason reason, RecordKind kind, uint64_t records = 1) {
    CountLoss(*segment_, reason, kind, records);
  }

  // Adds what this writer wrote to the segment's statistics. Not per record: a locked add costs more than the
  // record.
  void FlushStatistics() {
    for (size_t kind = 0; kind < kRecordKinds; ++kind) {
      if (written_[kind] == 0) continue;
      WrittenCounter(*segment_, kind).fetch_add(written_[kind], std::memory_order_relaxed);
      written_[kind] = 0;
    }
  }

  // Records written since this writer was made, string definitions included, pads not.
  uint64_t records() const { return records_; }

 private:
  // Publishes first: a reader can only free what it can see.
  bool MakeRoom(uint64_t needed) {
    if (published_ != head_) Commit();
    const uint64_t tail = ring_->tail.load(std::memory_order_acquire);
    if (head_ - tail > capacity_) return false;  // a tail that cannot be: treat the ring as full
    tail_ = tail;
    return head_ + needed - tail_ <= capacity_;
  }

  SegmentHeader* segment_ = nullptr;
  RingHeader* ring_ = nullptr;
  std::byte* bytes_ = nullptr;
  uint64_t capacity_ = 0;
  uint64_t published_ = 0;  // what the reader may see
  uint64_t head_ = 0;       // with what is reserved but not committed
  uint64_t tail_ = 0;       // last seen
  uint64_t records_ = 0;
  uint32_t written_[kRecordKinds] = {};  // since the last FlushStatistics
};

}  // namespace lockstep::ring

#endif  // LOCKSTEP_COMMON_RING_WRITER_H_
