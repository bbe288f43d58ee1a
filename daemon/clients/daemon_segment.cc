#include "daemon/clients/daemon_segment.h"

#include <algorithm>
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

DaemonSegment::DaemonSegment(ring::Segment segment)
    : segment_(std::move(segment)), losses_(segment_.header()), epoch_(segment_.header()->epoch.load()) {
  for (uint32_t i = 0; i < segment_.ring_count(); ++i) readers_.push_back(segment_.Reader(i));
  reported_broken_.resize(readers_.size());
}

uint64_t DaemonSegment::NextEpoch() {
  segment_.header()->epoch.store(++epoch_, std::memory_order_release);
  return epoch_;
}

DaemonSegment::Turn DaemonSegment::Drain(std::span<std::byte> scratch, uint64_t most_bytes,
                                         const std::function<void(const ring::RecordView&)>& sink) {
  Turn turn;
  for (size_t n = 0; n < readers_.size(); ++n) {
    ring::RingReader& reader = readers_[(first_ + n) % readers_.size()];
    turn.most_pending = std::max(turn.most_pending, reader.Pending());
    // The limit counts bytes, not records, because a peer can write padding without end.
    const uint64_t begin = reader.position();
    const uint64_t most = std::min(most_bytes, reader.capacity());
    ring::ReadStatus status = ring::ReadStatus::kRecords;
    while (reader.position() - begin < most &&
           (status = reader.Read(scratch)) == ring::ReadStatus::kRecords) {
      ring::RecordView record;
      while (reader.Next(&record)) {
        sink(record);
        ++turn.records;
      }
      reader.Free();
    }
    if (status == ring::ReadStatus::kRecords && reader.Pending() > 0) turn.drained = false;
    most_bytes -= std::min(most_bytes, reader.position() - begin);
  }
  first_ = (first_ + 1) % readers_.size();
  return turn;
}

void DaemonSegment::Discard() {
  for (ring::RingReader& reader : readers_) reader.Skip();
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
