// The drain thread: from the rings of every process in a capture, through batches, into the spools.
//
// Blocked while nobody captures. While somebody does it looks at the rings every 1 to 10 ms, soonest where
// much came. A process's drain is begun before it is armed and ended after it said that it is done (or is
// gone): by then its client writes no more, so emptying the rings once takes everything.
#ifndef LOCKSTEP_DAEMON_DRAINER_H_
#define LOCKSTEP_DAEMON_DRAINER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "daemon/clients/daemon_segment.h"
#include "daemon/drain/batcher.h"
#include "daemon/drain/spool.h"
#include "daemon/node/process.h"

namespace lockstep::daemon {

// How a process's part of a capture ended.
struct DrainEnd {
  HostInterval window;
  // Called on the drain thread when all records are in the spool; `records` came out of the rings. It must
  // have `add_end` called, on any thread, which puts the CaptureEnd after them: whoever hears of the end may
  // ask for the next capture at once, so the caller must have taken note of it by then.
  std::function<void(uint64_t records, std::function<void()> add_end)> done;
};

// Since the daemon started.
struct DrainStats {
  uint64_t turns = 0;
  uint64_t records = 0;
  uint64_t bytes = 0;  // of those records in the rings
};

class Drainer {
 public:
  explicit Drainer(const Clock& clock);
  ~Drainer();
  Drainer(const Drainer&) = delete;
  Drainer& operator=(const Drainer&) = delete;

  // Throws away what is left in the rings, starts an epoch of strings and returns its number. The process
  // must not be in a capture. Main thread.
  uint64_t Begin(const ProcessId& process, std::shared_ptr<DaemonSegment> segment, uint64_t incarnation,
                 const std::string& capture, std::shared_ptr<Spool> spool);
  // Throws away what came since Begin.
  void Restart(const ProcessId& process);
  void End(const ProcessId& process, DrainEnd end);
  // Nothing more of it is wanted: no batch, no CaptureEnd. Returns when the drain thread has let go of it.
  void Abandon(const ProcessId& process);
  // Any thread.
  DrainStats stats() const { return {turns_, records_, bytes_}; }

 private:
  static constexpr size_t kScratchBytes = 256u << 10;
  // A turn of one process: what 8 MiB of ring can hold, so that one process cannot keep the thread to itself.
  static constexpr uint64_t kTurnBytes = 8u << 20;
  static constexpr int kMostLastTurns = 64;
  static constexpr Nanos kBatchAge = Nanos::Millis(200);
  static constexpr Nanos kShortestPause = Nanos::Millis(1);
  static constexpr Nanos kLongestPause = Nanos::Millis(10);

  struct Active {
    explicit Active(BatchIdentity id) : identity(std::move(id)), batcher(identity) {}
    const BatchIdentity identity;
    std::shared_ptr<DaemonSegment> segment;
    std::shared_ptr<Spool> spool;
    Batcher batcher;
    MonoTime flushed;
    std::vector<std::string> broken;
    // Under Drainer::mutex_.
    bool ending = false;
    DrainEnd end;
    // Held while the drain thread is at it.
    std::mutex busy;
    bool abandoned = false;  // under `busy`
  };

  std::shared_ptr<Active> Find(const ProcessId& process);
  void Run();
  Nanos DrainAll(const std::vector<std::shared_ptr<Active>>& all);
  DaemonSegment::Turn DrainOnce(Active& active);
  void Flush(Active& active);
  void Finish(Active& active);

  const Clock& clock_;
  std::vector<std::byte> scratch_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<ProcessId, std::shared_ptr<Active>> active_;
  bool stopping_ = false;
  bool hurry_ = false;
  std::atomic<uint64_t> turns_ = 0;
  std::atomic<uint64_t> records_ = 0;
  std::atomic<uint64_t> bytes_ = 0;
  std::thread thread_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_DRAINER_H_
