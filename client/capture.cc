#include "client/capture.h"

#include "wire/ring/handshake.h"

namespace lockstep::client {
namespace {

constexpr uint32_t kCuptiActivities = ring::kActivityKernel | ring::kActivityMemcpy | ring::kActivityMemset |
                                      ring::kActivityRuntime | ring::kActivityDriver | ring::kActivitySync |
                                      ring::kActivityMemory;
constexpr uint32_t kNcclActivities =
    ring::kActivityNccl | ring::kActivityNcclKernelTimes | ring::kActivityNcclProxy;
constexpr Nanos kBetweenFlushes = Nanos::Millis(150);
constexpr Nanos kBetweenClocks = Nanos::Seconds(1);
// The tick while the capture waits for its trigger. It limits the delay until the agent's thread notices what
// a handler, or CUPTI's record of a call, has seen.
constexpr Nanos kWaitingTick = Nanos::Millis(10);
constexpr Nanos kLongestTick = Nanos::Millis(50);  // it also limits how late the end of a process is noticed
constexpr Nanos kShortlyBefore = Nanos::Millis(10);
// CUPTI's clock may be behind the host's, as in the simulation on a slow machine. The wait for it ends after
// this time.
constexpr Nanos kLongestLag = Nanos::Seconds(2);
constexpr int kClockTries = 50;
constexpr size_t kThreadNameBytes = size_t{ring::kMaxRings} * (64u << 10);

}  // namespace

bool Capture::ReserveMemory(Sentence* why) {
  if (!arena_.reserved()) {
    constexpr size_t kBuffers = kCuptiBuffers * kCuptiBufferBytes;
    constexpr size_t kProxyBytes = (NcclProxy::MemoryBytes() + kPageBytes - 1) & ~(kPageBytes - 1);
    if (!arena_.Reserve(kBuffers + kMostCuptiBufferBytes + kKernelNameBytes + kThreadNameBytes +
                        kProxyBytes)) {
      *why << "the process has no address space left for the capture's buffers";
      return false;
    }
    cupti_memory_.buffers = arena_.Take(kBuffers);
    cupti_memory_.discard = arena_.Take(kMostCuptiBufferBytes);
    cupti_memory_.names = arena_.Take(kKernelNameBytes);
    thread_names_ = arena_.Take(kThreadNameBytes);
    nccl_.proxy().UseMemory(arena_.Take(kProxyBytes));
  }
  return true;
}

bool Capture::OpenCupti(const CaptureRequest& request, const ring::ClientSegment& segment, Sentence* why) {
  if ((request.activities & kCuptiActivities) == 0) return true;
  if (!cupti_open_) {
    if (!open_cupti_(&api_, why)) return false;
    cupti_open_ = true;
  }
  cupti_refused_ = !cupti_.Arm(api_, request.activities, callbacks_, cupti_memory_, segment, why);
  if (cupti_refused_) return false;
  clock_.Use(api_.GetTimestamp, &cupti_.ticks());
  return true;
}

void Capture::Prepare() {
  Sentence ignored;
  if (!cupti_open_ && !open_cupti_(&api_, &ignored)) return;
  cupti_open_ = true;
  cupti_.Prepare(api_);
}

bool Capture::Arm(const CaptureRequest& request, const ring::ClientSegment& segment, Sentence* why) {
  window_.Close();
  window_begun_ = false;
  cupti_refused_ = false;
  if (!ReserveMemory(why)) return false;
  segment.header().epoch.store(request.epoch, std::memory_order_release);
  if (!OpenCupti(request, segment, why)) return false;
  ++serial_;
  nvtx_.Begin(serial_);
  recorder_.Begin(serial_, segment, thread_names_, ids_);
  // The client follows ranges and operations from now on, so that it knows those which span T0.
  if (request.activities & ring::kActivityNvtx) flags_.nvtx.store(serial_);
  if (request.activities & kNcclActivities) {
    flags_.nccl.store(serial_);
    nccl_.Begin(cupti_.armed() ? &api_ : nullptr, request.activities);
  }
  state_ = State::kArmed;
  return true;
}

Nanos Capture::Start(HostTime t0, HostTime t1) {
  const Nanos late = timing_.realtime() - t0;
  if (cupti_.armed()) {
    cupti_.OpenWindow();
    cupti_.DescribeObjects();
  }
  window_.Open(t0, t1);
  WriteStart();
  state_ = State::kWindow;
  return late > Nanos() ? late : Nanos();
}

// Writes clocks and communicators, which the reader needs to interpret every other record.
void Capture::WriteStart() {
  WriteClock();
  if (ThreadSlot* slot = recorder_.Enter()) {
    if (flags_.nccl.load() != 0) {
      nccl_.WriteCommunicators(*slot);
      calls_.WriteCommunicators(*slot);
    }
    if (flags_.nvtx.load() != 0) nvtx_.WriteThreadNames(*slot);
    recorder_.Leave(*slot);
  }
  next_flush_ = timing_.monotonic() + kBetweenFlushes;
  next_clock_ = timing_.monotonic() + kBetweenClocks;
}

void Capture::WaitForTrigger(const TriggerSpec& trigger, HostTime give_up) {
  give_up_ = give_up;
  if (cupti_.armed()) {
    cupti_.OpenWindow();
    cupti_.DescribeObjects();
  }
  WriteStart();
  state_ = State::kWaiting;
  trigger_.Set(trigger);
}

Nanos Capture::TickWaiting() {
  if (timing_.realtime() >= give_up_ && trigger_.GiveUp()) return Nanos();
  const Trigger::Phase phase = trigger_.phase();
  if (phase == Trigger::Phase::kOpen || phase == Trigger::Phase::kClosed) {
    window_begun_ = true;
    state_ = State::kWindow;
    WriteStart();
    return Tick();
  }
  const MonoTime now = timing_.monotonic();
  const bool by_record = trigger_.begin() == ring::Begin::kAtProfilerStart;
  if (cupti_.armed() && (by_record || now >= next_flush_)) {
    cupti_.Flush();
    next_flush_ = now + kBetweenFlushes;
  }
  return kWaitingTick;
}

void Capture::OnProfilerCall(ProfilerCall call) {
  if (!trigger_.watching()) return;
  // The recorder's slot keeps the agent's thread from changing the trigger meanwhile.
  ThreadSlot* slot = recorder_.Enter();
  if (slot == nullptr) return;
  const HostTime now = clock_.now();
  if (call == ProfilerCall::kStart) {
    trigger_.OnProfilerStart(now, now);
  } else {
    trigger_.OnProfilerStop(now);
  }
  recorder_.Leave(*slot);
}

void Capture::WriteClock() {
  ring::ClockRecord record{};
  TakeClockSnapshot(clock_, kClockTries, &record);
  ThreadSlot* slot = recorder_.Enter();
  if (slot == nullptr) return recorder_.CountNoRing(ring::RecordKind::kClock);
  if (auto* to = slot->ring.New<ring::ClockRecord>()) {
    record.header = to->header;
    *to = record;
  }
  slot->ring.Commit();
  recorder_.Leave(*slot);
}

bool Capture::WindowPassed() {
  const HostTime now = timing_.realtime();
  if (now < window_.t1()) return false;
  return clock_.now() >= window_.t1() || now - window_.t1() > kLongestLag;
}

Nanos Capture::Tick() {
  if (state_ == State::kWaiting) return TickWaiting();
  if (WindowPassed()) return Nanos();
  if (flags_.nccl.load() != 0) nccl_.Refresh();
  const MonoTime now = timing_.monotonic();
  const Nanos begins = window_.t0() - timing_.realtime();
  if (!window_begun_ && begins <= kShortlyBefore) {
    window_begun_ = true;
    // Drops before T0 are outside the window. If T0 has passed, a drop may have been inside.
    if (begins > Nanos() && cupti_.armed()) cupti_.OpenWindow();
  }
  if (now >= next_flush_) {
    if (cupti_.armed()) cupti_.Flush();
    next_flush_ = now + kBetweenFlushes;
  }
  if (now >= next_clock_) {
    WriteClock();
    next_clock_ = now + kBetweenClocks;
  }
  Nanos wait = kLongestTick;
  const Nanos left = window_.t1() - timing_.realtime();
  if (left > Nanos() && left < wait) wait = left;
  const Nanos until_begin = begins - kShortlyBefore;
  if (until_begin > Nanos() && until_begin < wait) wait = until_begin;
  if (begins > Nanos() && begins < wait) wait = begins;  // actions of the agent's thread at T0
  return wait;
}

CaptureTotals Capture::Finish() { return Close(What::kKeep); }

void Capture::Abort() {
  if (state_ != State::kIdle) Close(What::kForget);
}

CaptureTotals Capture::Close(What what) {
  const bool with_cupti = cupti_.armed();
  CaptureTotals totals;
  if (window_.open()) totals.window = {window_.t0(), window_.t1()};
  nccl_.End();
  if (what == What::kKeep) {
    cupti_.Drain();
    WriteClock();
    if (ThreadSlot* slot = recorder_.Enter()) {
      if (flags_.nvtx.load() != 0) nvtx_.CloseStarted(*slot);
      recorder_.Leave(*slot);
    }
  } else {
    window_.Close();
    cupti_.Abort();
  }
  RecorderTotals threads;
  const bool all_left = recorder_.End(timing_, &threads, [this](ThreadSlot& slot) { nvtx_.CloseOpen(slot); });
  if (!all_left) segment_in_use_ = true;
  window_.Close();
  trigger_.Clear();
  Arena::Discard(cupti_memory_.names);
  if (all_left) Arena::Discard(thread_names_);
  cupti_.DiscardFreeBuffers();
  state_ = State::kIdle;
  totals.records = threads.records;
  totals.outside = threads.outside;
  if (with_cupti) {
    totals.records += cupti_.records();
    totals.outside += cupti_.outside();
  }
  return totals;
}

}  // namespace lockstep::client
