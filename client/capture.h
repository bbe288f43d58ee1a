// One capture, from ARM to DONE: brings the sources up together and takes them down together. Whatever fails
// undoes all and leaves a sentence. Called by our thread only.
#ifndef LOCKSTEP_CLIENT_CAPTURE_H_
#define LOCKSTEP_CLIENT_CAPTURE_H_

#include <cstdint>

#include "client/cupti/cupti_api.h"
#include "client/cupti/cupti_source.h"
#include "client/gate.h"
#include "client/nccl/nccl_source.h"
#include "client/nvtx/nccl_calls.h"
#include "client/nvtx/nvtx_source.h"
#include "client/record/arena.h"
#include "client/record/recorder.h"
#include "client/record/text.h"
#include "client/record/timing.h"
#include "client/record/trigger.h"
#include "wire/ring/client_segment.h"

namespace lockstep::client {

// Where CUPTI comes from: the loader, or a test's table.
using OpenCuptiFn = bool (*)(CuptiApi* api, Sentence* why);

struct CaptureRequest {
  uint64_t epoch = 0;
  uint32_t activities = 0;  // ring::Activities
};

struct CaptureTotals {
  uint64_t records = 0;
  uint64_t outside = 0;
  HostInterval window;  // as it was in the end; empty where it never opened
};

class Capture {
 public:
  // `gate` is a global of its own, all zero at the start: only then does it lie in pages the kernel can wipe.
  constexpr Capture(Gate& gate, const Timing& timing, OpenCuptiFn open_cupti, const CuptiCallbacks& callbacks)
      : gate_(gate),
        timing_(timing),
        open_cupti_(open_cupti),
        callbacks_(callbacks),
        trigger_(window_),
        recorder_(gate_),
        cupti_(timing, window_, trigger_, ids_),
        nvtx_(gate_, recorder_, clock_, window_, trigger_),
        nccl_(gate_, recorder_, clock_, window_),
        calls_(gate_, recorder_, clock_, window_, nccl_) {}

  // ---- for the entry points ----
  Recorder& recorder() { return recorder_; }
  CuptiSource& cupti() { return cupti_; }
  NvtxSource& nvtx() { return nvtx_; }
  NcclSource& nccl() { return nccl_; }
  Trigger& trigger() { return trigger_; }
  // lockstep_profiler_start and _stop.
  enum class ProfilerCall : uint8_t { kStart, kStop };
  void OnProfilerCall(ProfilerCall call);
  // The window is open, now.
  bool recording() const {
    return gate_.capture.load(std::memory_order_relaxed) != 0 && window_.Contains(clock_.now());
  }
  // Empty while it is not open.
  HostInterval window() const {
    return window_.open() ? HostInterval{window_.t0(), window_.t1()} : HostInterval{};
  }
  uint64_t serial() const { return gate_.capture.load(std::memory_order_relaxed); }
  HostTime now() const { return clock_.now(); }
  NcclCalls& nccl_calls() { return calls_; }

  // ---- our thread ----
  // kLooking: started, and the trigger has not come.
  enum class State : uint8_t { kIdle, kArmed, kLooking, kWindow };
  State state() const { return state_; }
  uint32_t cupti_version() const { return cupti_.version(); }
  // The last Arm failed because another tool in this process holds CUPTI; null: for another reason, or not at
  // all.
  const HolderName* holder() const { return cupti_refused_ && cupti_.held() ? &cupti_.holder() : nullptr; }

  // Has CUPTI set itself up and record nothing. Whatever fails is told when a capture is armed.
  void Prepare();
  // False, with `why`: nothing is on.
  bool Arm(const CaptureRequest& request, const ring::ClientSegment& segment, Sentence* why);
  // Records from [t0, t1) on the host's REALTIME. How long after t0 we learned of it, 0 when in time.
  Nanos Start(HostTime t0, HostTime t1);
  // With a trigger: it opens and closes the window; looked for until `give_up`.
  void Look(const TriggerSpec& trigger, HostTime give_up);
  // Ends the window now.
  void EndWindow() { window_.EndAt(timing_.realtime()); }
  // What is due: flushes, clock records. Returns how long until it wants to be called again; Nanos() when the
  // window has passed on every clock and Finish is due, or, still kLooking, when the trigger did not come.
  Nanos Tick();
  // After Tick said so. Takes up to a few seconds: see CuptiSource::Drain.
  CaptureTotals Finish();
  // Undoes everything and forgets what CUPTI still holds.
  void Abort();
  // A thread never came out of a handler: it may still write into the segment's mapping, which must then
  // stay.
  bool segment_in_use() const { return segment_in_use_; }

 private:
  bool ReserveMemory(Sentence* why);
  bool OpenCupti(const CaptureRequest& request, const ring::ClientSegment& segment, Sentence* why);
  void WriteClock();
  void WriteStart();
  Nanos TickLooking();
  bool WindowPassed();
  enum class What : uint8_t { kKeep, kForget };
  CaptureTotals Close(What what);

  Gate& gate_;
  const Timing& timing_;
  OpenCuptiFn open_cupti_;
  CuptiCallbacks callbacks_;
  Window window_;
  Trigger trigger_;
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
