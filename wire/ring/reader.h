// Reads one ring in the daemon. It does not trust the writer (layout.h).
//
// In each turn, Read copies at most scratch.size() bytes out of the ring. Next checks the records of that
// private copy and returns them one by one. Free gives their space back to the writer; call it when the
// records are safely stored elsewhere. The size of the scratch limits the work per turn.
//
// An impossible head or record breaks this ring permanently. The reader then reads nothing more from it, and
// other rings are not affected.
//
// It is not thread-safe: one drain thread uses it.
#ifndef LOCKSTEP_WIRE_RING_READER_H_
#define LOCKSTEP_WIRE_RING_READER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "wire/ring/layout.h"
#include "wire/ring/record.h"

namespace lockstep::ring {

// A checked record in the reader's private copy, valid until the next Read. It is at least as long as its
// kind in minor version 0.
struct RecordView {
  RecordHeader header;
  std::span<const std::byte> bytes;  // whole record with its header

  // Returns a copy of the record. Record must be the struct of header.kind. Fields that an older writer did
  // not have are 0.
  template <typename Record>
  Record as() const {
    Record record{};
    std::memcpy(&record, bytes.data(), bytes.size() < sizeof record ? bytes.size() : sizeof record);
    return record;
  }
  // Returns the text of a kString record.
  std::span<const char> text() const {
    const auto record = as<StringRecord>();
    return {reinterpret_cast<const char*>(bytes.data()) + sizeof(StringRecord), record.length};
  }
};

enum class ReadStatus : uint8_t { kEmpty, kRecords, kBroken };
enum class BrokenReason : uint8_t { kNone, kHead, kLength, kCrossesEnd, kTooShortForKind, kStringLength };
const char* Explain(BrokenReason);

class RingReader {
 public:
  // `bytes` and `capacity` come from a checked SegmentGeometry. Reading starts at the ring's tail: 0 in a new
  // segment, else the position where an earlier daemon stopped.
  RingReader(RingHeader* ring, const std::byte* bytes, uint64_t capacity);

  // `scratch` is aligned to 8, has at least kMaxRecordBytes, and must outlive the views.
  ReadStatus Read(std::span<std::byte> scratch);
  // Returns false at the end of the copied bytes, or if the ring is broken. It skips pads and unknown kinds.
  bool Next(RecordView* out);
  // Frees the records that Next has returned or skipped.
  void Free();
  // Frees everything up to the writer's head without reading it. The time does not depend on the content.
  void Skip();

  bool broken() const { return broken_ != BrokenReason::kNone; }
  BrokenReason broken_reason() const { return broken_; }
  uint64_t capacity() const { return capacity_; }
  // Bytes freed since the ring was made. It grows by at least 8 with each Read that returns records.
  uint64_t position() const { return tail_; }
  // Bytes between the freed position and the writer's head; 0 if broken.
  uint64_t Pending() const;
  // Number of skipped records of unknown kinds.
  uint64_t unknown_records() const { return unknown_; }

 private:
  bool Break(BrokenReason reason);

  RingHeader* ring_;
  const std::byte* bytes_;
  uint64_t capacity_;
  uint64_t tail_;            // private copy; the shared one is only written
  uint64_t contiguous_ = 0;  // bytes from tail_ to the last head read, at most up to the ring's end
  std::span<std::byte> copy_;
  size_t next_ = 0;  // position of the next record in copy_
  uint64_t unknown_ = 0;
  BrokenReason broken_ = BrokenReason::kNone;
};

// The increases of a segment's loss counters since the last call. A counter that decreased counts as
// unchanged, because the peer may write any value.
struct LossCounts {
  uint64_t records[kLossReasons][kRecordKinds] = {};
  uint64_t total() const;
};

class LossReader {
 public:
  explicit LossReader(const SegmentHeader* header) : header_(header) {}
  LossCounts Take();

 private:
  const SegmentHeader* header_;
  LossCounts seen_;
};

}  // namespace lockstep::ring

#endif  // LOCKSTEP_WIRE_RING_READER_H_
