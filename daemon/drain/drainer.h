// Drainer runs the drain thread, which moves records from the rings of every process in a capture through
// batches into the spools.
//
// Without a capture the thread is blocked. During a capture it reads the rings every 1 to 10 ms, more often
// if many records arrive. A process's drain begins before it is armed and ends after it reports done (or has
// gone). The client then writes no more, so emptying the rings once takes everything.
#ifndef LOCKSTEP_DAEMON_DRAIN_DRAINER_H_
#define LOCKSTEP_DAEMON_DRAIN_DRAINER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "daemon/clients/daemon_segment.h"
#include "daemon/drain/batcher.h"
#include "daemon/drain/spool.h"
#include "daemon/node/process.h"

namespace lockstep::daemon {

// The end of a process's part in a capture.
struct DrainEnd {
  HostInterval window;
  // Called on the drain thread when all records are in the spool; `records` is the number taken from the
  // rings. It must arrange for `add_end` to be called, on any thread. `add_end` appends the CaptureEnd. An
  // aggregator that receives the CaptureEnd may request the next capture at once. The caller must therefore
  // update its own state before it calls `add_end`.
  std::function<void(uint64_t records, std::function<void()> add_end)> done;
};

// Totals since the daemon started.
struct DrainStats {
  uint64_t turns = 0;
  uint64_t records = 0;
  uint64_t bytes = 0;  // size of these records in the rings

  DrainStats& operator+=(const DrainStats& other) {
    turns += other.turns;
    records += other.records;
    bytes += other.bytes;
    return *this;
  }
};

class Drainer {
 public:
  explicit Drainer(const Clock& clock);
  ~Drainer();
  Drainer(const Drainer&) = delete;
  Drainer& operator=(const Drainer&) = delete;

  // Discards the content of the rings, starts an epoch of strings and returns its number. The process must
  // not be in a capture. Main thread.
  uint64_t Begin(const ProcessId& process, std::shared_ptr<DaemonSegment> segment, uint64_t incarnation,
                 const std::string& capture, std::shared_ptr<Spool> spool);
  // Discards the records received since Begin.
  void Restart(const ProcessId& process);
  void End(const ProcessId& process, DrainEnd end);
  // Ends the drain without a further batch or CaptureEnd. Returns when the drain thread no longer uses the
  // process.
  void Abandon(const ProcessId& process);
  // Returns true if it drains no process. Any thread.
  bool idle();
  // Any thread.
  DrainStats stats() const { return {turns_, records_, bytes_}; }

 private:
  static constexpr size_t kScratchBytes = 256u << 10;
  // Limit of one turn, so that one process cannot occupy the thread.
  static constexpr uint64_t kTurnBytes = 8u << 20;
  static constexpr Nanos kBatchAge = Nanos::Millis(200);
  static constexpr Nanos kShortestPause = Nanos::Millis(1);
  static constexpr Nanos kLongestPause = Nanos::Millis(10);

  struct Active {
    Active(BatchIdentity id, std::shared_ptr<DaemonSegment> drained, std::shared_ptr<Spool> target,
           MonoTime now)
        : identity(std::move(id)),
          segment(std::move(drained)),
          spool(std::move(target)),
          begun(now),
          batcher(identity),
          flushed(now) {}
    const BatchIdentity identity;
    const std::shared_ptr<DaemonSegment> segment;
    const std::shared_ptr<Spool> spool;
    const MonoTime begun;
    // Held while the drain thread works on this process. Taken before Drainer::mutex_.
    Mutex busy;
    Batcher batcher ABSL_GUARDED_BY(busy);
    MonoTime flushed ABSL_GUARDED_BY(busy);
    std::vector<std::string> broken ABSL_GUARDED_BY(busy);
    bool abandoned ABSL_GUARDED_BY(busy) = false;
  };

  struct Entry {
    std::shared_ptr<Active> active;
    bool ending = false;
    std::optional<DrainEnd> end;  // until the drain thread takes it
  };

  std::shared_ptr<Active> Find(const ProcessId& process);
  // Returns and removes the end of the process's part, if it has one.
  std::optional<DrainEnd> TakeEnd(const Active& active);
  void Run();
  Nanos DrainAll(const std::vector<std::shared_ptr<Active>>& all);
  // `most_bytes` is as for DaemonSegment::Drain.
  DaemonSegment::Turn DrainOnce(Active& active, uint64_t most_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(active.busy);
  void Flush(Active& active) ABSL_EXCLUSIVE_LOCKS_REQUIRED(active.busy);
  void Finish(Active& active, const DrainEnd& end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(active.busy);

  const Clock& clock_;
  std::vector<std::byte> scratch_;  // thread: drain
  Mutex mutex_;
  CondVar changed_;
  std::map<ProcessId, Entry> active_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool wake_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<uint64_t> turns_ = 0;
  std::atomic<uint64_t> records_ = 0;
  std::atomic<uint64_t> bytes_ = 0;
  std::thread thread_;  // thread: owner
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_DRAIN_DRAINER_H_
