// What opens and closes a capture's window where no clock does: a training step, an NVTX range, the profiler
// API.
//
//   off ──Set──▶ looking ──the begin came──▶ open ──the end came, or the window's own end──▶ closed
//
// The application's threads see the begin and the end and move the window then and there, inside their
// handlers: no lock, no allocation, no waiting. Our thread sets it up, and learns of what happened by
// looking.
#ifndef LOCKSTEP_CLIENT_TRIGGER_H_
#define LOCKSTEP_CLIENT_TRIGGER_H_

#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/time.h"
#include "client/record/timing.h"
#include "wire/ring/handshake.h"

namespace lockstep::client {

// As ring::Start gives it.
struct TriggerSpec {
  ring::Begin begin = ring::Begin::kAtT0;
  ring::End end = ring::End::kAfterDuration;
  uint64_t step = 0;
  uint64_t steps = 0;
  Nanos duration;
  Nanos limit;        // how long an end is waited for once the window is open
  HostTime earliest;  // before it no begin counts
  std::string_view range;
};

// Which step the process is at. `step_time` 0: no step was seen yet.
struct StepReport {
  uint64_t step = 0;
  Nanos step_time;
};

class Trigger {
 public:
  constexpr explicit Trigger(Window& window) : window_(window) {}

  enum class Phase : uint32_t { kOff, kLooking, kOpening, kOpen, kClosed };
  // How a step was told: by lockstep.h, or by a range's name. The first kind beats the second.
  enum class StepSource : uint8_t { kMarked, kNamed };
  // Names one range of the process while it is open.
  static uint64_t KeyOfPush(uint32_t thread, uint32_t depth) { return uint64_t{thread} << 32 | (depth + 1); }
  static uint64_t KeyOfStarted(uint64_t id) { return id | uint64_t{1} << 63; }

  // ---- our thread ----
  // Looks from now on. No handler may be inside since the last Clear (Recorder::End sees to it).
  void Set(const TriggerSpec& spec);
  // After Begin::kReportStep: the step that all ranks begin at.
  void Agree(uint64_t step);
  void Clear() { phase_.store(Phase::kOff, std::memory_order_release); }
  // Nothing came in time. False: it has just come.
  bool GiveUp();

  Phase phase() const { return phase_.load(std::memory_order_acquire); }
  ring::Begin begin() const { return begin_.load(std::memory_order_relaxed); }
  // The end that was asked for came, before the limit.
  bool end_seen() const { return end_seen_.load(std::memory_order_relaxed); }
  // The first whole step in the window came later than the one that was asked for.
  bool step_missed() const { return step_missed_.load(std::memory_order_relaxed); }
  // How long before the window opened its begin had come: only the profiler API is heard of late.
  Nanos late() const { return Nanos(late_ns_.load(std::memory_order_relaxed)); }
  // `step_time`: of the last whole step; where none has ended, how long the first runs.
  StepReport Steps(HostTime now) const;
  bool step_measured() const { return step_ns_.load(std::memory_order_relaxed) > 0; }

  // ---- any thread, between Recorder::Enter and Leave ----
  bool watching() const { return phase_.load(std::memory_order_relaxed) != Phase::kOff; }
  void OnRange(std::string_view text, std::string_view domain, uint64_t key, HostTime now);
  void OnRangeEnd(uint64_t key, HostTime now);
  void OnStep(uint64_t number, StepSource source, uint64_t key, HostTime now);

  // ---- any thread ----
  // `called`: when the function was called; `now` is later where the call is only learned of by its record.
  void OnProfilerStart(HostTime called, HostTime now);
  void OnProfilerStop(HostTime called);

 private:
  static constexpr uint64_t kNoStep = ~uint64_t{0};
  static constexpr size_t kRangeBytes = sizeof(ring::Start::range);

  bool Matches(std::string_view text, std::string_view domain) const;
  // True: this caller opened it.
  bool Open(HostTime now);
  void Close(HostTime end);
  // One step's time later, so that what the device still owes the last step is recorded.
  void CloseAfterSteps(HostTime now);

  Window& window_;
  std::atomic<Phase> phase_{Phase::kOff};
  // Written while off, but for what Agree changes.
  std::atomic<ring::Begin> begin_{ring::Begin::kAtT0};
  std::atomic<uint64_t> step_{0};
  ring::End end_ = ring::End::kAfterDuration;
  uint64_t steps_ = 0;
  Nanos duration_;
  Nanos limit_;
  HostTime earliest_;
  char range_[kRangeBytes] = {};
  uint32_t range_length_ = 0;
  uint32_t domain_at_ = 0;  // where the domain's name begins in range_, 0: any domain

  std::atomic<bool> end_seen_{false};
  std::atomic<bool> step_missed_{false};
  std::atomic<int64_t> late_ns_{0};
  std::atomic<uint64_t> key_{0};     // of the range that opened the window, or of the last counted
  std::atomic<uint64_t> ranges_{0};  // counted since then
  std::atomic<uint64_t> first_step_{kNoStep};
  std::atomic<bool> marked_{false};
  std::atomic<uint64_t> last_step_{kNoStep};
  std::atomic<uint64_t> step_key_{0};
  std::atomic<int64_t> last_step_at_{0};
  std::atomic<int64_t> step_ns_{0};
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_TRIGGER_H_
