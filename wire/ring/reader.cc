#include "wire/ring/reader.h"

#include <algorithm>

namespace lockstep::ring {
namespace {

// The length of a kind in minor version 0, whose writers must still be read, or in the version that added it.
constexpr size_t kLeastBytes[kRecordKinds] = {
    sizeof(RecordHeader),
    sizeof(StringRecord),
#define RECORD(Name, space, number, first_bytes) first_bytes,
#include "wire/fields/records.def"
};

}  // namespace

const char* Explain(BrokenReason reason) {
  switch (reason) {
    case BrokenReason::kNone:
      return "not broken";
    case BrokenReason::kHead:
      return "the write position is behind the read position or more than a ring ahead";
    case BrokenReason::kLength:
      return "a record's length is not a multiple of 8 between 8 and the greatest allowed";
    case BrokenReason::kCrossesEnd:
      return "a record exceeds the write position or the ring's end";
    case BrokenReason::kTooShortForKind:
      return "a record is shorter than its kind requires";
    case BrokenReason::kStringLength:
      return "a string is longer than the record that holds it";
  }
  return "unknown reason";
}

RingReader::RingReader(RingHeader* ring, const std::byte* bytes, uint64_t capacity)
    : ring_(ring), bytes_(bytes), capacity_(capacity), tail_(ring->tail.load(std::memory_order_acquire)) {
  if (tail_ % 8 != 0) Break(BrokenReason::kHead);
}

bool RingReader::Break(BrokenReason reason) {
  broken_ = reason;
  contiguous_ = 0;
  return false;
}

uint64_t RingReader::Pending() const {
  if (broken()) return 0;
  const uint64_t claimed = ring_->head.load(std::memory_order_acquire) - tail_;
  return claimed > capacity_ ? 0 : claimed;
}

ReadStatus RingReader::Read(std::span<std::byte> scratch) {
  copy_ = {};
  next_ = 0;
  if (broken()) return ReadStatus::kBroken;
  const uint64_t available = ring_->head.load(std::memory_order_acquire) - tail_;
  if (available == 0) return ReadStatus::kEmpty;
  if (available > capacity_ || available % 8 != 0) {
    Break(BrokenReason::kHead);
    return ReadStatus::kBroken;
  }
  const uint64_t position = tail_ & (capacity_ - 1);
  contiguous_ = std::min(available, capacity_ - position);
  const size_t wanted = std::min<uint64_t>(contiguous_, scratch.size() & ~size_t{7});
  std::memcpy(scratch.data(), bytes_ + position, wanted);
  copy_ = scratch.first(wanted);
  return ReadStatus::kRecords;
}

bool RingReader::Next(RecordView* out) {
  while (!broken() && copy_.size() - next_ >= sizeof(RecordHeader)) {
    RecordHeader header;
    std::memcpy(&header, copy_.data() + next_, sizeof header);
    if (header.bytes < sizeof(RecordHeader) || header.bytes > kMaxRecordBytes || header.bytes % 8 != 0) {
      return Break(BrokenReason::kLength);
    }
    if (header.bytes > contiguous_ - next_) return Break(BrokenReason::kCrossesEnd);
    if (header.bytes > copy_.size() - next_) return false;  // the next Read copies the whole record
    const auto record = std::span<const std::byte>(copy_).subspan(next_, header.bytes);
    const auto kind = static_cast<size_t>(header.kind);
    next_ += header.bytes;
    if (header.kind == RecordKind::kPad) continue;
    if (kind >= kRecordKinds) {
      ++unknown_;
      continue;
    }
    if (header.bytes < kLeastBytes[kind]) return Break(BrokenReason::kTooShortForKind);
    *out = {header, record};
    if (header.kind == RecordKind::kString &&
        out->as<StringRecord>().length > header.bytes - sizeof(StringRecord)) {
      return Break(BrokenReason::kStringLength);
    }
    return true;
  }
  return false;
}

void RingReader::Free() {
  if (next_ == 0) return;
  tail_ += next_;
  contiguous_ -= std::min<uint64_t>(contiguous_, next_);
  copy_ = copy_.subspan(next_);
  next_ = 0;
  ring_->tail.store(tail_, std::memory_order_release);
}

void RingReader::Skip() {
  copy_ = {};
  next_ = 0;
  if (broken()) return;
  const uint64_t available = ring_->head.load(std::memory_order_acquire) - tail_;
  if (available > capacity_ || available % 8 != 0) {
    Break(BrokenReason::kHead);
    return;
  }
  contiguous_ = 0;
  tail_ += available;
  ring_->tail.store(tail_, std::memory_order_release);
}

uint64_t LossCounts::total() const {
  uint64_t sum = 0;
  for (const auto& reason : records) {
    for (uint64_t n : reason) sum += n;
  }
  return sum;
}

LossCounts LossReader::Take() {
  LossCounts increase;
  for (size_t reason = 0; reason < kLossReasons; ++reason) {
    for (size_t kind = 0; kind < kRecordKinds; ++kind) {
      const uint64_t now = LostCounter(*header_, reason, kind).load(std::memory_order_relaxed);
      uint64_t& seen = seen_.records[reason][kind];
      increase.records[reason][kind] = now > seen ? now - seen : 0;
      seen = now;
    }
  }
  return increase;
}

}  // namespace lockstep::ring
