#include "wire/ring/log_cursor.h"

#include "base/split_mix.h"

namespace lockstep::ring {
namespace {

constexpr int kCursorTries = 8;
// Threads write entries at the same time, so that the last ones may not be complete yet.
constexpr uint64_t kBeingWritten = 64;
constexpr uint64_t kMostDelayed = kLogEntries / 2;
constexpr uint64_t kLookAhead = 1024;

template <size_t words>
uint64_t HashOf(const ProgressText<words>& text) {
  uint64_t hash = 0;
  for (size_t i = 0; i < words; ++i) hash = HashCombine(hash, text.word[i].load(std::memory_order_relaxed));
  return hash;
}

// Returns false if the entry has not that position, or changes it.
bool ReadEntry(const LogEntry& from, uint64_t position, LogRecord* to) {
  if (from.position.load(std::memory_order_acquire) != position) return false;
  const auto load = [](const auto& field) { return field.load(std::memory_order_relaxed); };
  const ProgressOperation& operation = from.operation;
  to->kind = static_cast<LogKind>(load(from.kind));
  to->communicator = load(from.communicator);
  to->number = load(operation.number);
  to->shape =
      HashCombine(HashCombine(HashOf(operation.function), HashOf(operation.datatype)), load(operation.count));
  to->entered = HostTime(load(operation.entered_ns));
  to->started = HostTime(load(operation.started_ns));
  to->completed = HostTime(load(operation.completed_ns));
  std::atomic_thread_fence(std::memory_order_acquire);
  return load(from.position) == position;
}

bool HasSettled(const LogRecord& record, HostTime settled) {
  if (record.kind != LogKind::kOperation) return true;
  return record.completed != HostTime() && record.completed <= settled;
}

}  // namespace

bool LogCursor::NeverEnds(const Segment& segment, const LogRecord& record, uint64_t newest,
                          HostTime settled) const {
  // The operations of a communicator run one after the other.
  for (uint64_t i = 1; i <= kLookAhead && i <= newest - next_; ++i) {
    LogRecord later;
    if (!ReadEntry(segment.log()[LogPlace(next_ + i)], next_ + i, &later)) continue;
    if (later.kind == LogKind::kOperation && later.communicator == record.communicator &&
        HasSettled(later, settled))
      return true;
  }
  return false;
}

std::vector<LogRecord> LogCursor::Read(const Segment& segment, HostTime settled) {
  std::vector<LogRecord> records;
  const uint64_t newest = segment.header()->log_newest.load(std::memory_order_acquire);
  if (newest == 0) return records;
  const uint64_t oldest = newest < kLogEntries ? 1 : newest - kLogEntries + 1;
  if (next_ == 0) {
    next_ = oldest;
  } else if (next_ < oldest) {
    missed_ += oldest - next_;
    next_ = oldest;
  }
  // The bound matters for a hostile `newest`.
  for (uint32_t i = 0; i < kLogEntries && next_ <= newest; ++i) {
    LogRecord record;
    bool read = false;
    for (int n = 0; n < kCursorTries && !read; ++n)
      read = ReadEntry(segment.log()[LogPlace(next_)], next_, &record);
    if (!read) {
      if (newest - next_ < kBeingWritten) break;
      // A new log begins with positions that were never in it.
      if (began_) ++missed_;
      ++next_;
      continue;
    }
    began_ = true;
    if (!HasSettled(record, settled) && newest - next_ < kMostDelayed &&
        !NeverEnds(segment, record, newest, settled))
      break;
    const bool known = record.kind == LogKind::kOperation || record.kind == LogKind::kNamedStep ||
                       record.kind == LogKind::kMarkedStep;
    if (known) records.push_back(record);
    ++next_;
  }
  return records;
}

}  // namespace lockstep::ring
