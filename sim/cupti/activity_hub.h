// Implements the activity API of the simulated CUPTI: the enabled kinds, the records in flight, and the
// buffers of the tool.
//
// A record waits here until the wall clock has passed its time, and then enters a buffer of the tool. A
// worker thread of this class returns full and flushed buffers, as CUPTI's worker does. Host records go to a
// buffer of the thread that made them, unless the tool switched that off. Device records go to a buffer of
// their own.
//
// Any thread may call it. The tool's callbacks run without `state_` held, so that they may read the dropped
// count.
#ifndef LOCKSTEP_SIM_CUPTI_ACTIVITY_HUB_H_
#define LOCKSTEP_SIM_CUPTI_ACTIVITY_HUB_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <queue>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "sim/cupti/core.h"
#include "sim/cupti/timebase.h"

namespace lockstep::sim {

class ActivityHub {
 public:
  explicit ActivityHub(const CuptiSettings& settings)
      : settings_(settings), per_thread_(!settings.one_buffer) {}
  ~ActivityHub();

  // Called on behalf of the tool.
  void Register(foreign::cupti::BufferRequested requested, foreign::cupti::BufferCompleted completed);
  // Records that ended before `now` are still written under the previous setting.
  void SetEnabled(foreign::cupti::ActivityKind kind, bool enabled, int64_t now);
  void SetCallEnabled(foreign::cupti::CallbackDomain domain, uint32_t cbid, bool enabled, int64_t now);
  // Returns after the tool has received every buffer that holds a complete record. `kForced` also delivers
  // every record in flight, with 0 for each unknown time stamp. On the worker thread it queues the buffers
  // and returns.
  enum class Flush { kComplete, kForced };
  void FlushAll(Flush flush, int64_t now);
  uint64_t TakeDropped(int64_t realtime_ns);
  // Disables all kinds and discards the records in flight.
  void Reset();
  // True once the fault device_lost has begun.
  bool DeviceLost() const;
  Timebase& timebase() { return timebase_; }
  void SetPerThreadBuffers(bool on) {
    per_thread_.store(on && !settings_.one_buffer, std::memory_order_relaxed);
  }

  // A fork copies the mutexes as they are. With both calls around it, a child of a rank with several threads
  // can record too, as with the real CUPTI.
  void LockForFork();
  void UnlockAfterFork();

  // With `on`, the tool fills its buffers with zeros, and the fault zeroing has no effect.
  void SetZeroedByTool(bool on) { zeroed_by_tool_.store(on, std::memory_order_relaxed); }

  // Called on behalf of the rank; core.h defines these functions.
  bool Wants(foreign::cupti::ActivityKind kind) const;
  bool WantsCall(foreign::cupti::CallbackDomain domain, uint32_t cbid) const;
  uint64_t Launch(const void* record, size_t bytes);
  void Complete(uint64_t ticket, int64_t start_ns, int64_t end_ns, int64_t release, Delivery delivery);
  void Record(const void* record, size_t bytes, SimCall call, int64_t stamp_ns, int64_t release,
              Delivery delivery);
  void Pump(int64_t now);
  size_t Ledger(const SimLedgerEntry** entries);

 private:
  struct Bytes {
    alignas(8) uint8_t data[kMaxRecordBytes];
    foreign::cupti::ActivityKind kind() const {
      return reinterpret_cast<const foreign::cupti::Activity*>(data)->kind;
    }
  };
  struct Ready {
    int64_t release;
    uint64_t order;  // creation order of records with the same release
    int64_t stamp_ns;
    Delivery delivery;
    SimCall call;
    uint32_t lane;  // the buffer's thread id, or 0 for the device
    Bytes bytes;
    bool operator>(const Ready& o) const {
      return release != o.release ? release > o.release : order > o.order;
    }
  };
  struct Buffer {
    uint8_t* data = nullptr;
    size_t bytes = 0;
    size_t used = 0;
    size_t records = 0;
    size_t max_records = 0;  // 0 means as many as fit
  };
  static constexpr uint32_t kKinds = 64;
  static constexpr uint32_t kCallbackIds = 1024;

  bool StillWanted(const Ready& ready) const;
  void Write(const Ready& ready, SimOutcome outcome) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_);
  // Changes the fields that faults make wrong.
  void ShowFaults(Bytes* bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_);
  void Append(const Bytes& bytes, size_t size, Buffer* current) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_);
  // True for every `period`th of the records so far; never if it is 0.
  bool IsNth(uint32_t period) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_) {
    return period != 0 && written_ % period == 0;
  }
  bool MakeRoom(Buffer* current, size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_);
  // Requests a buffer from the tool. Its data is null if there is none.
  Buffer RequestBuffer();
  // True once nothing is recorded or returned any more.
  bool Ended() const;
  void ReturnBuffer(Buffer* current) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_);
  void ReturnAllBuffers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_);
  void WriteInFlight(int64_t now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_);
  void RunWorker();
  uint32_t LaneOfCaller() const;
  void Note(int64_t stamp_ns, foreign::cupti::ActivityKind kind, SimOutcome outcome, uint64_t count);

  std::atomic<bool> enabled_[kKinds] = {};
  enum : uint8_t { kAsKind = 0, kOn = 1, kOff = 2 };
  std::atomic<uint8_t> calls_[2][kCallbackIds] = {};
  std::atomic<uint64_t> dropped_{0};
  // Drops that a tool may not know yet: the CLOCK_MONOTONIC time, and the number.
  Mutex drops_;
  std::deque<std::pair<int64_t, uint64_t>> late_drops_ ABSL_GUARDED_BY(drops_);
  // CLOCK_MONOTONIC time at which kernel records were first switched on; 0: not yet.
  std::atomic<int64_t> first_enabled_{0};

  // Taken before state_. Admits one writer at a time, also while the tool supplies a buffer.
  Mutex writing_;
  std::map<uint32_t, Buffer> current_ ABSL_GUARDED_BY(writing_);  // by lane
  // Records and kernels so far, for faults at every Nth.
  uint64_t written_ ABSL_GUARDED_BY(writing_) = 0;
  uint64_t kernels_ ABSL_GUARDED_BY(writing_) = 0;

  const CuptiSettings settings_;
  Timebase timebase_;  // thread-safe
  std::atomic<bool> per_thread_;
  std::atomic<bool> zeroed_by_tool_{false};
  std::atomic<uint32_t> sessions_{0};  // number of times that kernel records were switched on

  Mutex state_;
  foreign::cupti::BufferRequested requested_ ABSL_GUARDED_BY(state_) = nullptr;
  foreign::cupti::BufferCompleted completed_ ABSL_GUARDED_BY(state_) = nullptr;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready_ ABSL_GUARDED_BY(state_);
  std::map<uint64_t, Bytes> in_flight_ ABSL_GUARDED_BY(state_);
  uint64_t next_order_ ABSL_GUARDED_BY(state_) = 1;
  uint64_t next_ticket_ ABSL_GUARDED_BY(state_) = 1;
  std::vector<SimLedgerEntry> ledger_ ABSL_GUARDED_BY(state_);
  std::deque<Buffer> full_ ABSL_GUARDED_BY(state_);
  bool delivering_ ABSL_GUARDED_BY(state_) = false;
  bool stop_ ABSL_GUARDED_BY(state_) = false;
  CondVar work_;
  CondVar quiet_;
  std::thread worker_ ABSL_GUARDED_BY(state_);
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_CUPTI_ACTIVITY_HUB_H_
