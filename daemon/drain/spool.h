// Spool holds the data for one aggregator until it is acknowledged, in bounded memory.
//
// Batches, gaps and capture ends are in the order of their creation. An entry gets its sequence number when
// it is first sent, and stays until the aggregator acknowledges it. When the bytes exceed the cap, the oldest
// batch that was never sent is replaced by a Gap. An unsent Gap is reused for the same process and capture.
// The records count as lost, and the string definitions are kept. The sequence therefore has no missing
// number, and no record is both lost and stored. When every
// such batch has become a Gap, the spool drops the definitions of the oldest Gap and counts them as lost. The
// aggregator then stores later records without those names.
//
// Thread-safe: the drain thread adds entries; the uplink's threads take and acknowledge them.
#ifndef LOCKSTEP_DAEMON_DRAIN_SPOOL_H_
#define LOCKSTEP_DAEMON_DRAIN_SPOOL_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
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
  size_t definition_bytes = 0;  // length of the definitions at the start of `blocks`
  uint64_t definitions = 0;     // their number
  std::array<uint64_t, columns::kKinds> rows{};
  HostInterval span;  // first to last time stamp of its records
};

// The memory that several spools share. Thread-safe.
struct SpoolBudget {
  explicit SpoolBudget(size_t cap) : cap_bytes(cap) {}
  const size_t cap_bytes;
  std::atomic<size_t> bytes = 0;
  std::atomic<size_t> trace_file_bytes = 0;  // part of bytes
  std::atomic<size_t> in_flight_bytes = 0;   // part of bytes
};

struct SpoolStats {
  size_t bytes = 0;
  size_t entries = 0;
  size_t in_flight = 0;
  Nanos oldest_age;  // age of the entry that has waited longest; 0: the spool is empty
  // Totals since the spool was created.
  uint64_t dropped_records = 0;
  uint64_t sent = 0;          // entries; equals the last sequence number
  uint64_t resent = 0;        // entries; each repetition counts
  uint64_t acknowledged = 0;  // sequence number

  void AddCounts(const SpoolStats& other);
};

class Spool {
 public:
  // `losses` counts the records lost here and the losses in CaptureEnds. References outlive this.
  Spool(size_t cap_bytes, const Clock& clock, losses::LossTable& losses)
      : Spool(std::make_shared<SpoolBudget>(cap_bytes), clock, losses) {}
  // The spools of one budget have its cap together. A spool at the cap drops its own entries only.
  Spool(std::shared_ptr<SpoolBudget> budget, const Clock& clock, losses::LossTable& losses)
      : budget_(std::move(budget)), clock_(clock), losses_(losses) {}
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  // Sets the function that is called when there may be a message to send, on the thread that added it. Once
  // OnReady(nullptr) has returned, the previous function is not called any more.
  void OnReady(std::function<void()> ready);

  void Add(BatchData batch);
  void AddEnd(v1::CaptureEnd end);
  // Adds a piece of a trace file. Returns false if there is no room now: the file waits on disk, so pieces
  // are never dropped. Pieces may occupy half of the spool, so that the other half is left for batches. A
  // piece that gives up the file is always accepted.
  bool AddTraceFile(v1::TraceFile piece);
  // Drops all unsent entries of the capture.
  void Forget(const std::string& capture);

  // Takes the next message to send; it is then in flight. Returns false if there is no credit or all are
  // sent.
  bool Take(v1::FromDaemon& message);
  void Acknowledge(uint64_t through, uint32_t credits);
  // Called for a new stream. Entries that the aggregator has not stored are sent again under the same
  // numbers.
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
    // Set for batches and gaps only.
    uint64_t definitions = 0;  // number
    // Set for batches only.
    size_t definition_bytes = 0;
    std::array<uint64_t, columns::kKinds> rows{};
    HostInterval span;
  };

  void Append(Entry entry);
  void Push(Entry entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds the entry's bytes to the totals, or subtracts them if `sign` is -1.
  void Count(const Entry& entry, int sign) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same for the bytes in flight.
  void CountInFlight(const Entry& entry, int sign) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool OverCap() const { return budget_->bytes > budget_->cap_bytes; }
  void MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReplaceByGap(size_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropDefinitions(Entry& gap) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Entry* UnsentGap(const std::string& capture, const v1::ProcessKey& process, size_t before)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Retire(uint64_t through) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void CallReady();

  const std::shared_ptr<SpoolBudget> budget_;
  const Clock& clock_;
  losses::LossTable& losses_;
  Mutex ready_mutex_;
  std::function<void()> ready_ ABSL_GUARDED_BY(ready_mutex_);

  mutable Mutex mutex_;
  std::deque<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t credits_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_sequence_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t acknowledged_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t resent_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t dropped_records_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_DRAIN_SPOOL_H_
