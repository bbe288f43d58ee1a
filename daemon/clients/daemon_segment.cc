#include "daemon/clients/daemon_segment.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::daemon {
namespace {

absl::Status SegmentFailed(ring::SegmentError error, const char* what) {
  const std::string text = absl::StrCat(what, ": ", ring::Explain(error));
  return error == ring::SegmentError::kSystem ? absl::ErrnoToStatus(errno, text)
                                              : absl::InvalidArgumentError(text);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DaemonSegment>> DaemonSegment::Create(const ring::SegmentOptions& options) {
  ring::Segment segment;
  const ring::SegmentError error = ring::Segment::Create(options, &segment);
  if (error != ring::SegmentError::kNone) return SegmentFailed(error, "cannot create a segment");
  return std::unique_ptr<DaemonSegment>(new DaemonSegment(std::move(segment)));
}

absl::StatusOr<std::unique_ptr<DaemonSegment>> DaemonSegment::Adopt(Fd memfd) {
  ring::Segment segment;
  const ring::SegmentError error = ring::Segment::Adopt(std::move(memfd), &segment);
  if (error != ring::SegmentError::kNone)
    return SegmentFailed(error, "cannot take over the client's segment");
  return std::unique_ptr<DaemonSegment>(new DaemonSegment(std::move(segment)));
}

DaemonSegment::DaemonSegment(ring::Segment segment)
    : segment_(std::move(segment)), losses_(segment_.header()), epoch_(segment_.header()->epoch.load()) {
  for (uint32_t i = 0; i < segment_.ring_count(); ++i) readers_.push_back(segment_.Reader(i));
  reported_broken_.resize(readers_.size());
}

uint64_t DaemonSegment::NextEpoch() {
  segment_.header()->epoch.store(++epoch_, std::memory_order_release);
  return epoch_;
}

DaemonSegment::Turn DaemonSegment::Drain(std::span<std::byte> scratch, uint64_t budget_bytes,
                                         const std::function<void(const ring::RecordView&)>& sink) {
  Turn turn;
  for (uint32_t i = 0; i < readers_.size(); ++i) {
    ring::RingReader& reader = readers_[i];
    turn.most_pending = std::max(turn.most_pending, reader.Pending());
    // The limit counts copies, not records, because a peer can write padding without end.
    uint64_t copies = budget_bytes / scratch.size() + 1;
    ring::ReadStatus status = ring::ReadStatus::kRecords;
    while (copies-- > 0 && (status = reader.Read(scratch)) == ring::ReadStatus::kRecords) {
      ring::RecordView record;
      while (reader.Next(&record)) {
        sink(record);
        ++turn.records;
      }
      reader.Free();
    }
    if (status == ring::ReadStatus::kRecords) turn.drained = false;
  }
  return turn;
}

uint64_t DaemonSegment::Discard() {
  std::array<std::byte, 64 * 1024> scratch;
  uint64_t records = 0;
  // Two rounds drain twice the segment's capacity. That is enough for a writer that is finishing, and it ends
  // even if a writer never stops.
  for (int round = 0; round < 2; ++round) {
    const Turn turn = Drain(scratch, bytes(), [](const ring::RecordView&) {});
    records += turn.records;
    if (turn.drained) break;
  }
  return records;
}

uint64_t DaemonSegment::TakeUnknown() {
  uint64_t now = 0;
  for (const ring::RingReader& reader : readers_) now += reader.unknown_records();
  return now - std::exchange(seen_unknown_, now);
}

std::vector<std::string> DaemonSegment::TakeBroken() {
  std::vector<std::string> broken;
  for (uint32_t i = 0; i < readers_.size(); ++i) {
    if (!readers_[i].broken() || reported_broken_[i]) continue;
    reported_broken_[i] = true;
    broken.push_back(
        absl::StrCat("ring ", i, " is unreadable: ", ring::Explain(readers_[i].broken_reason())));
  }
  return broken;
}

}  // namespace lockstep::daemon
