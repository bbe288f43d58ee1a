// The daemon's end of one client's shared segment: its rings and its loss counters.
#ifndef LOCKSTEP_DAEMON_DAEMON_SEGMENT_H_
#define LOCKSTEP_DAEMON_DAEMON_SEGMENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/fd.h"
#include "wire/ring/segment.h"

namespace lockstep::daemon {

// One thread at a time: the main thread until a capture's drain begins, then the drain thread until it ended.
class DaemonSegment {
 public:
  static absl::StatusOr<std::unique_ptr<DaemonSegment>> Create(const ring::SegmentOptions& options);
  // Of a client that kept it over the daemon's restart.
  static absl::StatusOr<std::unique_ptr<DaemonSegment>> Adopt(Fd memfd);

  int fd() const { return segment_.fd(); }
  uint64_t bytes() const { return segment_.bytes(); }
  uint64_t incarnation() const { return segment_.incarnation(); }
  // Begins a new epoch of string ids and returns its number.
  uint64_t NextEpoch();

  struct Turn {
    uint64_t records = 0;
    uint64_t most_pending = 0;  // bytes in the fullest ring before the turn
    bool drained = true;        // all rings were empty in the end
  };
  // Passes at most `budget_bytes` of records to `sink` and frees their space. `scratch`: see
  // RingReader::Read.
  Turn Drain(std::span<std::byte> scratch, uint64_t budget_bytes,
             const std::function<void(const ring::RecordView&)>& sink);
  // Throws away what is in the rings. Returns the number of records.
  uint64_t Discard();

  // Increases since the last call.
  ring::LossCounts TakeLosses() { return losses_.Take(); }
  // Records of kinds that only a newer client has, skipped since the last call.
  uint64_t TakeUnknown();
  // One sentence per ring whose writer lied, since the last call.
  std::vector<std::string> TakeBroken();

 private:
  explicit DaemonSegment(ring::Segment segment);

  ring::Segment segment_;
  std::vector<ring::RingReader> readers_;
  std::vector<bool> told_broken_;
  ring::LossReader losses_;
  uint64_t seen_unknown_ = 0;
  uint64_t epoch_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_DAEMON_SEGMENT_H_
