// The draining side of one ring, in the daemon: distrusts its peer as layout.h says.
//
// One turn: Read copies at most scratch.size() bytes out of the ring, Next hands out the records of that
// private copy one by one after checking each, Free gives their space back to the writer (call it when what
// was read is safe elsewhere). Work per turn is bounded by the scratch, whatever the peer does. A peer that
// lies once (a head that cannot be, a record that cannot be) makes this ring broken for good: nothing more is
// read from it, and nothing else suffers.
//
// Not thread-safe: one drain thread.
#ifndef LOCKSTEP_COMMON_RING_READER_H_
#define LOCKSTEP_COMMON_RING_READER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "wire/ring/layout.h"
#include "wire/ring/record.h"

namespace lockstep::ring {

// A checked record in the reader's private copy; valid until the next Read. At least as long as minor version
// 0 makes its kind.
struct RecordView {
  RecordHeader header;
  std::span<const std::byte> bytes;  // whole record with its header

  // A copy of the record. Record must be the struct of header.kind; fields that an older writer did not know
  // are 0.
  template <typename Record>
  Record as() const {
    Record record{};
    std::memcpy(&record, bytes.data(), bytes.size() < sizeof record ? bytes.size() : sizeof record);
    return record;
  }
  // kString only: the text.
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
  // `bytes` and `capacity` from a checked SegmentGeometry. Starts at the tail that the ring holds: 0 in a new
  // segment, or where an earlier daemon stopped.
  RingReader(RingHeader* ring, const std::byte* bytes, uint64_t capacity);

  // `scratch` is aligned to 8, at least kMaxRecordBytes long, and outlives the views.
  ReadStatus Read(std::span<std::byte> scratch);
  // False at the end of what Read copied, or when the ring turned out broken. Pads and unknown kinds are
  // skipped.
  bool Next(RecordView* out);
  // Frees what Next has passed.
  void Free();

  bool broken() const { return broken_ != BrokenReason::kNone; }
  BrokenReason broken_reason() const { return broken_; }
  // Bytes the writer claims beyond what was freed; 0 when broken.
  uint64_t Pending() const;
  // Records of kinds this version does not know, skipped.
  uint64_t unknown_records() const { return unknown_; }

 private:
  bool Break(BrokenReason reason);

  RingHeader* ring_;
  const std::byte* bytes_;
  uint64_t capacity_;
  uint64_t tail_;            // ours; the shared one is only written
  uint64_t contiguous_ = 0;  // bytes from tail_ that the head read last vouches for, up to the ring's end
  std::span<std::byte> copy_;
  size_t next_ = 0;  // of the next record in copy_
  uint64_t unknown_ = 0;
  BrokenReason broken_ = BrokenReason::kNone;
};

// The loss counters of a segment as increases since the last look. A counter that went down (the peer may
// write them) counts as no increase.
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

#endif  // LOCKSTEP_COMMON_RING_READER_H_
