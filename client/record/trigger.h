// Opens and closes a capture's window by an event instead of a time: a training step, an NVTX range, or the
// profiler API.
//
//   off ──Set──▶ looking ──the begin came──▶ open ──the end came, or the window's own end──▶ closed
//
// The application's threads see the begin and the end, and change the window immediately inside their
// handlers. They take no lock, do not allocate and do not wait. The agent's thread sets the trigger up, and
// polls it.
#ifndef LOCKSTEP_CLIENT_RECORD_TRIGGER_H_
#define LOCKSTEP_CLIENT_RECORD_TRIGGER_H_

#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/time.h"
#include "client/record/timing.h"
#include "wire/ring/handshake.h"

namespace lockstep::client {

// The trigger of ring::Start.
struct TriggerSpec {
  ring::Begin begin = ring::Begin::kAtT0;
  ring::End end = ring::End::kAfterDuration;
  uint64_t step = 0;
  uint64_t steps = 0;
  Nanos duration;
  Nanos limit;        // longest wait for the end after the window has opened
  HostTime earliest;  // earlier begins do not count
  std::string_view range;
};

// The process's current step. If `step_time` is 0, there was no step yet.
struct StepReport {
  uint64_t step = 0;
  Nanos step_time;
};

class Trigger {
 public:
  constexpr explicit Trigger(Window& window) : window_(window) {}

  enum class Phase : uint32_t { kOff, kWaiting, kOpening, kOpen, kClosed };
  // The source of a step: lockstep.h (kMarked), or a range's name (kNamed). kMarked has priority.
  enum class StepSource : uint8_t { kMarked, kNamed };
  // Identifies one range of the process while it is open.
  static uint64_t KeyOfPush(uint32_t thread, uint32_t depth) { return uint64_t{thread} << 32 | (depth + 1); }
  static uint64_t KeyOfStarted(uint64_t id) { return id | uint64_t{1} << 63; }

  // ---- the agent's thread ----
  // Waits for the begin from now on. No handler may have been inside since the last Clear; Recorder::End
  // ensures that.
  void Set(const TriggerSpec& spec);
  // Sets the step at which all ranks begin, after Begin::kReportStep.
  void Agree(uint64_t step);
  void Clear() { phase_.store(Phase::kOff, std::memory_order_release); }
  // Ends the waiting for the begin. Returns false if the begin has just come.
  bool GiveUp();

  Phase phase() const { return phase_.load(std::memory_order_acquire); }
  ring::Begin begin() const { return begin_.load(std::memory_order_relaxed); }
  // The requested end came, before the limit.
  bool end_seen() const { return end_seen_.load(std::memory_order_relaxed); }
  // The first whole step in the window came later than the requested one.
  bool step_missed() const { return step_missed_.load(std::memory_order_relaxed); }
  // The time from the begin until the window opened. Only calls of the profiler API become known late.
  Nanos late() const { return Nanos(late_ns_.load(std::memory_order_relaxed)); }
  // `step_time` is the length of the last whole step. If none has ended, it is the time since the first
  // began.
  StepReport Steps(HostTime now) const;
  bool step_measured() const { return step_ns_.load(std::memory_order_relaxed) > 0; }

  // ---- any thread, between Recorder::Enter and Leave ----
  bool watching() const { return phase_.load(std::memory_order_relaxed) != Phase::kOff; }
  void OnRange(std::string_view text, std::string_view domain, uint64_t key, HostTime now);
  void OnRangeEnd(uint64_t key, HostTime now);
  void OnStep(uint64_t number, StepSource source, uint64_t key, HostTime now);

  // ---- any thread ----
  // `called` is the time of the call. `now` is later if the call became known only through its record.
  void OnProfilerStart(HostTime called, HostTime now);
  void OnProfilerStop(HostTime called);

 private:
  static constexpr uint64_t kNoStep = ~uint64_t{0};
  static constexpr size_t kRangeBytes = sizeof(ring::Start::range);

  bool Matches(std::string_view text, std::string_view domain) const;
  // Returns true if this caller opened the window.
  bool Open(HostTime now);
  void Close(HostTime end);
  // Closes one step's time later, so that the device's remaining work of the last step is recorded.
  void CloseAfterSteps(HostTime now);

  Window& window_;
  std::atomic<Phase> phase_{Phase::kOff};
  // Written while the phase is off. Agree changes two of them later.
  std::atomic<ring::Begin> begin_{ring::Begin::kAtT0};
  std::atomic<uint64_t> step_{0};
  ring::End end_ = ring::End::kAfterDuration;
  uint64_t steps_ = 0;
  Nanos duration_;
  Nanos limit_;
  HostTime earliest_;
  char range_[kRangeBytes] = {};
  uint32_t range_length_ = 0;
  uint32_t domain_at_ = 0;  // position of the domain's name in range_, 0: any domain

  std::atomic<bool> end_seen_{false};
  std::atomic<bool> step_missed_{false};
  std::atomic<int64_t> late_ns_{0};
  std::atomic<uint64_t> key_{0};     // of the range that opened the window, or of the last counted one
  std::atomic<uint64_t> ranges_{0};  // ranges counted since then
  std::atomic<uint64_t> first_step_{kNoStep};
  std::atomic<bool> marked_{false};
  std::atomic<uint64_t> last_step_{kNoStep};
  std::atomic<uint64_t> step_key_{0};
  std::atomic<int64_t> last_step_at_{0};
  std::atomic<int64_t> step_ns_{0};
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_RECORD_TRIGGER_H_
