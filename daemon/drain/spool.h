// What waits to be acknowledged by one aggregator, in memory, bounded.
//
// Batches, gaps and capture ends in the order they were made. An entry gets its sequence number when it is
// first sent and stays until the aggregator acknowledges it. When the bytes pass the cap, the oldest batch
// that was never sent is replaced by a Gap (one per process and capture, as long as that is unsent): its
// records are counted as lost, its string definitions are kept. So no number is ever missing from the
// sequence, and nothing is both lost and stored.
//
// Thread-safe: the drain thread adds, the uplink's threads take and acknowledge.
#ifndef LOCKSTEP_DAEMON_SPOOL_H_
#define LOCKSTEP_DAEMON_SPOOL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/time.h"
#include "daemon/node/process.h"
#include "lockstep/v1/ingest.pb.h"
#include "wire/columns/schema.h"
#include "wire/losses/loss_table.h"

namespace lockstep::daemon {

// A batch before it has a sequence number.
struct BatchData {
  std::string capture;
  ProcessId process;
  uint64_t incarnation = 0;
  std::string blocks;           // definitions first
  size_t definition_bytes = 0;  // of `blocks`
  std::array<uint64_t, columns::kKinds> rows{};
  HostInterval span;  // first to last stamp of its records
};

struct SpoolStats {
  size_t bytes = 0;
  size_t entries = 0;
  size_t in_flight = 0;
  Nanos oldest_age;  // of the entry that has waited longest; 0: none waits
  // Since the beginning.
  uint64_t dropped_records = 0;
  uint64_t sent = 0;          // entries; the sequence number of the last
  uint64_t resent = 0;        // entries, once for each time
  uint64_t acknowledged = 0;  // sequence number

  void AddCounts(const SpoolStats& other);
};

class Spool {
 public:
  // `losses` takes what is lost here, and what the ends of captures tell. References outlive this.
  Spool(size_t cap_bytes, const Clock& clock, metrics::LossTable& losses)
      : cap_bytes_(cap_bytes), clock_(clock), losses_(losses) {}
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  // Called when there may be something to send, on the thread that made it so. Once OnReady(nullptr) has
  // returned, the one before is not called any more.
  void OnReady(std::function<void()> ready);

  void Add(BatchData batch);
  void AddEnd(v1::CaptureEnd end);
  // A piece of a trace file; false when there is no room for it now: the file waits on disk, so pieces are
  // never dropped. They may take half of the spool, so that batches keep the other. A piece that gives up is
  // always taken.
  bool AddTraceFile(v1::TraceFile piece);
  // Nothing of the capture is wanted any more: drops what was not sent yet.
  void Forget(const std::string& capture);

  // The next message to send, or nothing: no credit, or all sent. It is then in flight.
  bool Take(v1::FromDaemon& message);
  void Acknowledge(uint64_t through, uint32_t credits);
  // A new stream: what the aggregator has not stored by now is sent again, same numbers.
  void Resume(uint64_t stored_through, uint32_t credits);

  SpoolStats stats() const;
  bool empty() const;

 private:
  struct Entry {
    v1::FromDaemon message;  // batch, gap, end or piece of a trace file
    size_t bytes = 0;
    MonoTime added;
    uint64_t sequence = 0;  // 0: never sent
    bool in_flight = false;
    // Of batches.
    size_t definition_bytes = 0;
    std::array<uint64_t, columns::kKinds> rows{};
    HostInterval span;
  };

  void Append(Entry entry);
  void Push(Entry entry);
  // Adds the entry's bytes to what is held, or takes them away (sign -1).
  void Count(const Entry& entry, int sign);
  void MakeRoom();
  void TurnIntoGap(size_t index);
  Entry* UnsentGap(const std::string& capture, const v1::ProcessKey& process, size_t before);
  void Retire(uint64_t through);

  void CallReady();

  const size_t cap_bytes_;
  const Clock& clock_;
  metrics::LossTable& losses_;
  std::mutex ready_mutex_;
  std::function<void()> ready_;  // under ready_mutex_

  mutable std::mutex mutex_;
  std::deque<Entry> entries_;
  size_t bytes_ = 0;
  size_t trace_file_bytes_ = 0;  // of bytes_
  size_t in_flight_ = 0;
  size_t in_flight_bytes_ = 0;
  uint32_t credits_ = 0;
  uint64_t next_sequence_ = 1;
  uint64_t acknowledged_ = 0;
  uint64_t resent_ = 0;
  uint64_t dropped_records_ = 0;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_SPOOL_H_
