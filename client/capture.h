// Capture runs one capture from ARM to DONE. It starts all sources together and stops them together. A
// failure undoes everything and returns a sentence. Only the agent's thread calls it, except where noted.
#ifndef LOCKSTEP_CLIENT_CAPTURE_H_
#define LOCKSTEP_CLIENT_CAPTURE_H_

#include <cstdint>

#include "client/cupti/cupti_api.h"
#include "client/cupti/cupti_source.h"
#include "client/nccl/nccl_source.h"
#include "client/nvtx/nccl_calls.h"
#include "client/nvtx/nvtx_source.h"
#include "client/record/arena.h"
#include "client/record/operation_log.h"
#include "client/record/recorder.h"
#include "client/record/recording_flags.h"
#include "client/record/text.h"
#include "client/record/timing.h"
#include "client/record/trigger.h"
#include "wire/ring/client_segment.h"

namespace lockstep::client {

// Opens CUPTI through the loader, or with a test's table.
using OpenCuptiFn = bool (*)(CuptiApi* api, Sentence* why);

struct CaptureRequest {
  uint64_t epoch = 0;
  uint32_t activities = 0;  // ring::Activities
};

struct CaptureTotals {
  uint64_t records = 0;
  uint64_t outside = 0;
  HostInterval window;  // the actual window; empty if it never opened
};

class Capture {
 public:
  // `flags` must be a separate global that starts as all zero. Only then can the kernel wipe its page in
  // children.
  constexpr Capture(RecordingFlags& flags, const Timing& timing, OpenCuptiFn open_cupti,
                    const CuptiCallbacks& callbacks)
      : flags_(flags),
        timing_(timing),
        open_cupti_(open_cupti),
        callbacks_(callbacks),
        trigger_(window_),
        log_(timing),
        recorder_(flags_),
        cupti_(timing, window_, trigger_, ids_),
        nvtx_(flags_, recorder_, clock_, window_, trigger_, log_),
        nccl_(flags_, recorder_, clock_, window_, log_),
        calls_(flags_, recorder_, clock_, window_, nccl_) {}

  // ---- for the entry points, on any thread ----
  Recorder& recorder() { return recorder_; }
  CuptiSource& cupti() { return cupti_; }
  NvtxSource& nvtx() { return nvtx_; }
  NcclSource& nccl() { return nccl_; }
  Trigger& trigger() { return trigger_; }
  OperationLog& log() { return log_; }
  // The calls lockstep_profiler_start and lockstep_profiler_stop.
  enum class ProfilerCall : uint8_t { kStart, kStop };
  void OnProfilerCall(ProfilerCall call);
  // Returns whether the window is open now.
  bool recording() const {
    return flags_.capture.load(std::memory_order_relaxed) != 0 && window_.Contains(clock_.now());
  }
  // Returns the window, or an empty interval while it is not open.
  HostInterval window() const {
    return window_.open() ? HostInterval{window_.t0(), window_.t1()} : HostInterval{};
  }
  uint64_t serial() const { return flags_.capture.load(std::memory_order_relaxed); }
  HostTime now() const { return clock_.now(); }
  NcclCalls& nccl_calls() { return calls_; }

  // ---- the agent's thread ----
  // kWaiting: the capture has started, and its trigger has not come.
  enum class State : uint8_t { kIdle, kArmed, kWaiting, kWindow };
  State state() const { return state_; }
  uint32_t cupti_version() const { return cupti_.version(); }
  // If the last Arm failed because another tool in this process holds CUPTI, returns that tool. Else returns
  // null.
  const HolderName* holder() const { return cupti_refused_ && cupti_.held() ? &cupti_.holder() : nullptr; }

  // Makes CUPTI set itself up without recording. A failure is reported when a capture is armed.
  void Prepare();
  // Returns false with `why` on failure; then nothing is enabled.
  bool Arm(const CaptureRequest& request, const ring::ClientSegment& segment, Sentence* why);
  // Records from [t0, t1) on the host's CLOCK_REALTIME. Returns the time from t0 until this call, 0 if it was
  // in time.
  Nanos Start(HostTime t0, HostTime t1);
  // Waits for `trigger`, which opens and closes the window, until `give_up`.
  void WaitForTrigger(const TriggerSpec& trigger, HostTime give_up);
  // Ends the window at the current time.
  void EndWindow() { window_.EndAt(timing_.realtime()); }
  // Does all due work: flushes and clock records. Returns the time until the next call. Nanos() means that
  // the window has passed on every clock and Finish is due. In state kWaiting, Nanos() means that the trigger
  // did not come.
  Nanos Tick();
  // Call it after Tick has returned Nanos(). It takes up to a few seconds (CuptiSource::Drain).
  CaptureTotals Finish();
  // Undoes everything and forgets all records that are still in CUPTI.
  void Abort();
  // True if a thread never left a handler. It may still write to the segment, whose mapping must then stay.
  bool segment_in_use() const { return segment_in_use_; }

 private:
  bool ReserveMemory(Sentence* why);
  bool OpenCupti(const CaptureRequest& request, const ring::ClientSegment& segment, Sentence* why);
  void WriteClock();
  void WriteStart();
  Nanos TickWaiting();
  bool WindowPassed();
  enum class What : uint8_t { kKeep, kForget };
  CaptureTotals Close(What what);

  RecordingFlags& flags_;
  const Timing& timing_;
  OpenCuptiFn open_cupti_;
  CuptiCallbacks callbacks_;
  Window window_;
  Trigger trigger_;
  OperationLog log_;
  ActivityClock clock_;
  StringIds ids_;
  Recorder recorder_;
  CuptiSource cupti_;
  NvtxSource nvtx_;
  NcclSource nccl_;
  NcclCalls calls_;

  Arena arena_;
  CuptiMemory cupti_memory_;
  Memory thread_names_;
  CuptiApi api_;
  bool cupti_open_ = false;
  bool cupti_refused_ = false;  // it could not be armed
  State state_ = State::kIdle;
  uint64_t serial_ = 0;
  bool window_begun_ = false;  // T0 has passed
  bool segment_in_use_ = false;
  HostTime give_up_;
  MonoTime next_flush_;
  MonoTime next_clock_;
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_CAPTURE_H_
