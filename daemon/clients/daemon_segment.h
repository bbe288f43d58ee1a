// DaemonSegment is the daemon's end of one client's shared segment: its rings and its loss counters.
#ifndef LOCKSTEP_DAEMON_CLIENTS_DAEMON_SEGMENT_H_
#define LOCKSTEP_DAEMON_CLIENTS_DAEMON_SEGMENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/fd.h"
#include "wire/ring/log_cursor.h"
#include "wire/ring/network_reader.h"
#include "wire/ring/progress_reader.h"
#include "wire/ring/segment.h"

namespace lockstep::daemon {

// One thread at a time: the main thread, and between the begin and the end of a capture's drain the drain
// thread.
class DaemonSegment {
 public:
  static absl::StatusOr<std::unique_ptr<DaemonSegment>> Create(const ring::SegmentOptions& options);

  int fd() const { return segment_.fd(); }
  uint64_t bytes() const { return segment_.bytes(); }
  uint64_t incarnation() const { return segment_.incarnation(); }
  // Begins a new epoch of string ids and returns its number.
  uint64_t NextEpoch();

  struct Turn {
    uint64_t records = 0;
    uint64_t most_pending = 0;  // bytes in the fullest ring before this turn
    bool drained = true;        // all rings were empty at the end
  };
  // Passes records to `sink` and frees their space. It takes at most about `most_bytes` of all rings, and of
  // each ring at most what the ring can hold, however fast its writer is. Each turn begins with another ring.
  // RingReader::Read describes `scratch`.
  Turn Drain(std::span<std::byte> scratch, uint64_t most_bytes,
             const std::function<void(const ring::RecordView&)>& sink);
  // Discards the content of the rings without reading it.
  void Discard();

  // Returns the operations of the process's communicators. It needs no turn: any thread may call it.
  std::vector<ring::CommunicatorProgress> Progress() const { return ring::ReadProgress(segment_); }
  std::vector<ring::NetworkProgress> Network() const { return ring::ReadNetwork(segment_); }

  // Returns true if the client has written to its operation log. Any thread, as for Log.
  bool HasLog() const { return segment_.header()->log_newest.load(std::memory_order_relaxed) != 0; }
  // Returns the operation log's entries except those that ended before `since`.
  // It reads no memory that the client never wrote, because reading would allocate it.
  ring::OperationLog Log(HostTime since) const {
    return HasLog() ? ring::ReadLog(segment_, since) : ring::OperationLog();
  }

  // Returns the log's entries after those that `cursor` has read (LogCursor::Read).
  std::vector<ring::LogRecord> NewRecords(ring::LogCursor& cursor, HostTime settled) const {
    return HasLog() ? cursor.Read(segment_, settled) : std::vector<ring::LogRecord>();
  }
  // Returns the numbers of ranks of the communicators in the progress table, also of ended ones.
  std::map<uint64_t, int32_t> RanksOfCommunicators() const { return ring::RanksByCommunicator(segment_); }

  // Returns the increases since the last call.
  ring::LossCounts TakeLosses() { return losses_.Take(); }
  // Returns the number of skipped records since the last call whose kind only a newer client knows.
  uint64_t TakeUnknown();
  // Returns one sentence per ring that became corrupt since the last call.
  std::vector<std::string> TakeBroken();

 private:
  explicit DaemonSegment(ring::Segment segment);

  ring::Segment segment_;
  std::vector<ring::RingReader> readers_;
  std::vector<bool> reported_broken_;
  ring::LossReader losses_;
  size_t first_ = 0;  // the ring with which the next turn begins
  uint64_t seen_unknown_ = 0;
  uint64_t epoch_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CLIENTS_DAEMON_SEGMENT_H_
