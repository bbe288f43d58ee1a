// The simulated CUPTI's activity side: what is enabled, what is in flight, buffers out and back.
//
// Records wait here until the wall clock has passed them, go into the tool's buffers, and full or flushed
// buffers go back on a worker thread of our own, as CUPTI's do. Host records stand in buffers of the thread
// that made them unless the tool switched that off, device records in one of their own. Any thread. The
// tool's callbacks run without `state_` held, so that it may call back for its dropped count.
#ifndef LOCKSTEP_SIM_CUPTI_ACTIVITY_HUB_H_
#define LOCKSTEP_SIM_CUPTI_ACTIVITY_HUB_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

#include "sim/cupti/core.h"
#include "sim/cupti/timebase.h"

namespace lockstep::sim {

class ActivityHub {
 public:
  explicit ActivityHub(const CuptiKnobs& knobs) : knobs_(knobs) {}
  ~ActivityHub();

  // The tool's side.
  void Register(foreign::cupti::BufferRequested requested, foreign::cupti::BufferCompleted completed);
  // What was over at `now` is still recorded as things stood until then.
  void SetEnabled(foreign::cupti::ActivityKind kind, bool enabled, int64_t now);
  void SetCallEnabled(foreign::cupti::CallbackDomain domain, uint32_t cbid, bool enabled, int64_t now);
  // Returns when the tool has been given every buffer with a complete record in it; `forced`: and every
  // record in flight, with the stamps that are not known yet at 0. On the worker thread it only hands over.
  enum class Flush { kComplete, kForced };
  void FlushAll(Flush flush, int64_t now);
  uint64_t TakeDropped(int64_t realtime_ns);
  // Forgets what is enabled and what is in flight.
  void Reset();
  Timebase& timebase() { return timebase_; }
  void SetPerThreadBuffers(bool on) { per_thread_.store(on, std::memory_order_relaxed); }

  // The rank's side; see core.h.
  bool Wants(foreign::cupti::ActivityKind kind) const;
  bool WantsCall(foreign::cupti::CallbackDomain domain, uint32_t cbid) const;
  uint64_t Launch(const void* record, size_t bytes);
  void Complete(uint64_t ticket, int64_t start_ns, int64_t end_ns, int64_t release, Keep keep);
  void Record(const void* record, size_t bytes, SimCall call, int64_t stamp_ns, int64_t release, Keep keep);
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
    uint64_t order;  // records of one instant keep the order they were made in
    int64_t stamp_ns;
    Keep keep;
    SimCall call;
    uint32_t lane;  // whose buffer: a thread's id, 0 for the device
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
    size_t max_records = 0;  // 0: as many as fit
  };
  static constexpr uint32_t kKinds = 64;
  static constexpr uint32_t kCallbackIds = 1024;

  // With writing_ held.
  bool StillWanted(const Ready& ready) const;
  void Write(const Ready& ready, SimOutcome outcome);
  void ShowFaults(Bytes* bytes);
  bool MakeRoom(Buffer* current, size_t bytes);
  void GiveBack(Buffer* current);
  void GiveBackAll();
  void WriteInFlight(int64_t now);
  void RunWorker();
  uint32_t LaneOfCaller() const;
  void Note(int64_t stamp_ns, foreign::cupti::ActivityKind kind, SimOutcome outcome, uint64_t count);

  std::atomic<bool> enabled_[kKinds] = {};
  enum : uint8_t { kAsKind = 0, kOn = 1, kOff = 2 };
  std::atomic<uint8_t> calls_[2][kCallbackIds] = {};
  std::atomic<uint64_t> dropped_{0};

  std::mutex
      writing_;  // taken before state_: one writer at a time, also while the tool is asked for a buffer
  std::map<uint32_t, Buffer> current_;  // by lane
  uint64_t written_ = 0;                // records and kernels so far, for the faults that come every Nth
  uint64_t kernels_ = 0;

  const CuptiKnobs knobs_;
  Timebase timebase_;
  std::atomic<bool> per_thread_{true};
  std::atomic<uint32_t> sessions_{0};  // how often kernel records were switched on

  std::mutex state_;
  foreign::cupti::BufferRequested requested_ = nullptr;
  foreign::cupti::BufferCompleted completed_ = nullptr;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready_;
  std::map<uint64_t, Bytes> in_flight_;
  uint64_t next_order_ = 1;
  uint64_t next_ticket_ = 1;
  std::vector<SimLedgerEntry> ledger_;
  std::deque<Buffer> full_;
  bool delivering_ = false;
  bool stop_ = false;
  std::condition_variable work_;
  std::condition_variable quiet_;
  std::thread worker_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_CUPTI_ACTIVITY_HUB_H_
