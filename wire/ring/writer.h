// Writes one ring. It never blocks and never allocates. If the ring is full, it drops the newest record and
// counts it by (reason, kind). The header needs no C++ library at run time, because the injected client uses
// it inside the user's processes.
//
// A RingWriter belongs to one thread at a time. Commit makes all reserved bytes visible to the reader at
// once.
#ifndef LOCKSTEP_WIRE_RING_WRITER_H_
#define LOCKSTEP_WIRE_RING_WRITER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "wire/ring/layout.h"
#include "wire/ring/record.h"

namespace lockstep::ring {

// Claims a ring with one CAS, free→owned. `thread` is only for messages.
inline bool ClaimRing(RingHeader& ring, uint32_t thread) {
  uint32_t expected = static_cast<uint32_t>(RingState::kFree);
  if (!ring.state.compare_exchange_strong(expected, static_cast<uint32_t>(RingState::kOwned),
                                          std::memory_order_acquire, std::memory_order_relaxed)) {
    return false;
  }
  ring.owner_thread.store(thread, std::memory_order_relaxed);
  return true;
}

// The owner calls it after its last Commit. The bytes stay until the reader has drained them.
inline void ReleaseRing(RingHeader& ring) {
  ring.state.store(static_cast<uint32_t>(RingState::kFree), std::memory_order_release);
}

inline void CountLoss(SegmentHeader& segment, LossReason reason, RecordKind kind, uint64_t records = 1) {
  LostCounter(segment, static_cast<size_t>(reason), static_cast<size_t>(kind))
      .fetch_add(records, std::memory_order_relaxed);
}

template <typename Record>
struct KindOf;
#define RECORD(Name, space, number, first_bytes)             \
  template <>                                                \
  struct KindOf<Name##Record> {                              \
    static constexpr RecordKind value = RecordKind::k##Name; \
  };
#include "wire/fields/records.def"

// Sets the RESERVED bytes of a record to 0.
#define RECORD(Name, space, number, first_bytes) \
  inline void ClearReserved([[maybe_unused]] Name##Record& record) {
#define RESERVED(bytes, member) std::memset(record.member, 0, bytes);
#define END(Name) }
#include "wire/fields/records.def"

class RingWriter {
 public:
  constexpr RingWriter() = default;

  // `capacity` comes from a checked SegmentGeometry, and `bytes` is the ring's first byte. Writing continues
  // where the ring's last owner stopped.
  RingWriter(SegmentHeader& segment, RingHeader& ring, std::byte* bytes, uint64_t capacity)
      : segment_(&segment),
        ring_(&ring),
        bytes_(bytes),
        capacity_(capacity),
        published_(ring.head.load(std::memory_order_acquire)),
        head_(published_),
        tail_(ring.tail.load(std::memory_order_acquire)) {}

  bool attached() const { return ring_ != nullptr; }

  // Returns space for one record with its header filled in, or null if the ring is full (counted as a loss).
  // `bytes` is a multiple of 8 and at most kMaxRecordBytes. The caller fills every other field, then calls
  // Commit.
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

  // The typed form of Reserve. It also clears the reserved bytes.
  template <typename Record>
  Record* New() {
    auto* record = static_cast<Record*>(Reserve(KindOf<Record>::value, sizeof(Record)));
    if (record != nullptr) ClearReserved(*record);
    return record;
  }

  void Commit() {
    published_ = head_;
    ring_->head.store(head_, std::memory_order_release);
  }

  // Writes a kString record without a Commit. Returns false if the ring is full; the id is then not defined.
  // Text above kMaxStringBytes is cut and counted.
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

  // Adds the numbers of this writer to the segment's statistics. It is not called per record, because an
  // atomic add costs more than a record.
  void FlushStatistics() {
    for (size_t kind = 0; kind < kRecordKinds; ++kind) {
      if (written_[kind] == 0) continue;
      WrittenCounter(*segment_, kind).fetch_add(written_[kind], std::memory_order_relaxed);
      written_[kind] = 0;
    }
  }

  // Records since this writer was made, with string definitions and without pads.
  uint64_t records() const { return records_; }

 private:
  // It publishes first, because a reader can free only visible records.
  bool MakeRoom(uint64_t needed) {
    if (published_ != head_) Commit();
    const uint64_t tail = ring_->tail.load(std::memory_order_acquire);
    if (head_ - tail > capacity_) return false;  // an impossible tail: treat the ring as full
    tail_ = tail;
    return head_ + needed - tail_ <= capacity_;
  }

  SegmentHeader* segment_ = nullptr;
  RingHeader* ring_ = nullptr;
  std::byte* bytes_ = nullptr;
  uint64_t capacity_ = 0;
  uint64_t published_ = 0;  // bytes visible to the reader
  uint64_t head_ = 0;       // bytes reserved, also uncommitted ones
  uint64_t tail_ = 0;       // last value read
  uint64_t records_ = 0;
  uint32_t written_[kRecordKinds] = {};  // since the last FlushStatistics
};

}  // namespace lockstep::ring

#endif  // LOCKSTEP_WIRE_RING_WRITER_H_
