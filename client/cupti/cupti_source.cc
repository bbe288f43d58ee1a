#include "client/cupti/cupti_source.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "base/read_clock.h"
#include "wire/ring/handshake.h"

namespace lockstep::client {
namespace {

namespace cupti = foreign::cupti;
using cupti::ActivityKind;
using cupti::Result;
using ring::LossReason;
using ring::RecordKind;

// Above this difference, CUPTI does not stamp with the host's clock. PyTorch's profiler leaves the
// processor's tick counter behind.
constexpr Nanos kSameClock = Nanos::Seconds(3600);

constexpr Nanos kCompleteLimit = Nanos::Seconds(2);
constexpr Nanos kForcedLimit = Nanos::Millis(500);
constexpr Nanos kBetweenLooks = Nanos::Millis(10);
// A silent stream or thread may still have a record of the window. After this time without any record, none
// is expected.
constexpr Nanos kQuiet = Nanos::Millis(300);

constexpr size_t kQuickBufferBytes = 64u << 10;

// Activities that belong to a device, a context or a stream.
constexpr uint32_t kDeviceWork = ring::kActivityKernel | ring::kActivityMemcpy | ring::kActivityMemset |
                                 ring::kActivitySync | ring::kActivityMemory;

// True for errors that a driver gives before it is ready, or while another tool uses CUPTI.
bool MayPass(Result result) {
  return result == Result::kNotInitialized || result == Result::kNotReady || result == Result::kUnknown ||
         result == Result::kNotCompatible;
}

}  // namespace

// ---- CUPTI's threads ----

void CuptiSource::OnRequested(uint8_t** buffer, size_t* bytes, size_t* max_records) {
  *max_records = 0;
  std::byte* lent = pool_.Acquire();
  if (lent == nullptr) {
    // No buffer is free. A CUPTI that accepts null gets none and counts its drops. An older one gets a buffer
    // whose contents cannot be trusted.
    lent = version_ >= cupti::kVersion_12_9 ? nullptr : discard_;
  }
  *buffer = reinterpret_cast<uint8_t*>(lent);
  *bytes = lent == nullptr ? 0 : buffers_.bytes;
  // A call of the profiler API becomes known when its buffer returns. A buffer returns only after all its
  // work has run, so a small buffer returns sooner.
  if (lent != nullptr && trigger_.phase() == Trigger::Phase::kWaiting &&
      trigger_.begin() == ring::Begin::kAtProfilerStart) {
    *bytes = kQuickBufferBytes;
  }
}

void CuptiSource::OnRequestedInChild(uint8_t** buffer, size_t* bytes, size_t* max_records) const {
  *max_records = 0;
  *buffer = version_ >= cupti::kVersion_12_9 ? nullptr : reinterpret_cast<uint8_t*>(discard_);
  *bytes = *buffer == nullptr ? 0 : buffers_.bytes;
}

void CuptiSource::OnCompleted(uint8_t* buffer, size_t valid_bytes) {
  const uint32_t number = pool_.NumberOf(reinterpret_cast<std::byte*>(buffer));
  if (number != BufferPool::kNone) {
    ConvertOrQueue(number, valid_bytes <= pool_.buffer_bytes() ? valid_bytes : 0);
  } else if (buffer == reinterpret_cast<uint8_t*>(discard_) && buffer != nullptr && count_dropped_.load()) {
    // Several threads may have written here at once, so the records are only counted.
    cupti::Activity* record = nullptr;
    uint64_t lost = 0;
    while (api_.GetNextRecord(buffer, valid_bytes, &record) == Result::kSuccess) ++lost;
    ring::CountLoss(segment_->header(), LossReason::kCuptiDropped, RecordKind::kPad, lost);
  }
  CountDropped();
}

void CuptiSource::ConvertOrQueue(uint32_t number, size_t valid_bytes) {
  pool_.Enqueue(number, valid_bytes);
  // The thread with the claim converts the buffers of all threads. It checks the queue again after releasing
  // the claim, so that no buffer stays behind.
  while (pool_.queued()) {
    uint32_t nobody = 0;
    if (!converting_.compare_exchange_strong(nobody, 1)) return;
    pool_.DrainQueue([this](uint32_t n, size_t valid) {
      if (collecting_.load()) converter_.Convert(reinterpret_cast<uint8_t*>(pool_.at(n)), valid);
      if (buffers_.zeros == CuptiBufferSettings::Zeros::kByUs) std::memset(pool_.at(n), 0, valid);
      pool_.Release(n);
    });
    converting_.store(0);
  }
}

void CuptiSource::CountDropped() {
  if (!armed_) return;
  size_t dropped = 0;
  if (api_.GetNumDroppedRecords(nullptr, 0, &dropped) != Result::kSuccess || dropped == 0) return;
  if (count_dropped_.load() && window_.open()) {
    ring::CountLoss(segment_->header(), LossReason::kCuptiDropped, RecordKind::kPad, dropped);
  }
}

// ---- the agent's thread ----

bool CuptiSource::Fail(const char* function, Result result, Sentence* why) {
  const char* text = nullptr;
  if (api_.GetResultString != nullptr) api_.GetResultString(result, &text);
  *why << function << " failed with " << static_cast<uint32_t>(result);
  if (text != nullptr) *why << " (" << text << ")";
  if (result == Result::kUnknown)
    *why << ": the driver does not work in this process (nvidia-smi shows the state of the GPU)";
  if (result == Result::kInsufficientPrivileges ||
      result == Result::kVirtualizedDeviceInsufficientPrivileges) {
    *why << ": the driver permits profiling to administrators only";
  }
  held_ = NameHolder(why, &holder_) || result == Result::kMultipleSubscribersNotSupported;
  if (!held_ && !MayPass(result)) dormant_ = *why;
  return false;
}

bool CuptiSource::FindHolder(HolderName* name) const {
  if (api_.Subscribe == nullptr || api_.Unsubscribe == nullptr) return false;
  char holder[64] = {};
  cupti::SubscriberParams params{sizeof params, "lockstep", holder, sizeof holder};
  void* subscriber = nullptr;
  const Result result = api_.Subscribe(
      &subscriber, [](void*, cupti::CallbackDomain, uint32_t, const void*) {}, nullptr, &params);
  if (result == Result::kSuccess) api_.Unsubscribe(subscriber);
  if (result != Result::kMultipleSubscribersNotSupported) return false;
  holder[sizeof holder - 1] = '\0';
  const size_t prefix = sizeof cupti::kSubscriberPrefix - 1;
  const bool prefixed = std::strncmp(holder, cupti::kSubscriberPrefix, prefix) == 0;
  const char* bare = prefixed ? holder + prefix : holder;
  *name = HolderName();
  *name << (bare[0] == '\0' ? "a tool without a name" : bare);
  return true;
}

bool CuptiSource::NameHolder(Sentence* to, HolderName* name) const {
  if (!FindHolder(name)) return false;
  *to << "; CUPTI's subscriber in this process is " << name->c_str();
  return true;
}

bool CuptiSource::CheckVersion(Sentence* why) const {
  if (version_ == cupti::kVersion_13_0) {
    *why << "CUPTI 13.0.0 deadlocks when kernel records are disabled: use CUDA 13.0 Update 1 or later (for "
            "PyTorch's wheels: pip install -U nvidia-cuda-cupti)";
    return false;
  }
  return true;
}

CuptiSource::Clock CuptiSource::ReadClockDomain() const {
  uint64_t stamp = 0;
  const uint64_t before = ReadTicks();
  if (api_.GetTimestamp(&stamp) != Result::kSuccess) return Clock::kUnknown;
  const uint64_t after = ReadTicks();
  const Nanos difference = HostTime(static_cast<int64_t>(stamp)) - timing_.realtime();
  if (difference <= kSameClock && difference >= Nanos(-kSameClock.ns())) return Clock::kHosts;
  return before <= stamp && stamp <= after ? Clock::kTicks : Clock::kForeign;
}

bool CuptiSource::CheckClock(Sentence* why) {
  switch (ReadClockDomain()) {
    case Clock::kHosts:
      ticks_.End();
      return true;
    case Clock::kTicks:
      ticks_.Begin(timing_);
      return true;
    case Clock::kUnknown:
      *why << "cuptiGetTimestamp failed: CUPTI cannot be used in this process";
      break;
    case Clock::kForeign:
      // A profiler that has ended leaves its clock behind, so there may be no subscriber.
      held_ = true;
      holder_ << "a profiler that replaced its clock";
      *why
          << "CUPTI's time stamps are neither from the host's clock nor from the processor's counter in this "
             "process: another profiler replaced the clock";
      break;
  }
  held_ |= NameHolder(why, &holder_);
  return false;
}

void CuptiSource::CheckWindow() {
  if (flush_error_ != Result::kSuccess && records_outstanding()) {
    lost_ = true;
    ring::CountLoss(segment_->header(), LossReason::kContested, RecordKind::kPad, 1);
    note_ << "cuptiActivityFlushAll failed with " << static_cast<uint32_t>(flush_error_)
          << " in the window, so records are missing: the GPU may be lost (nvidia-smi shows its state)";
    return;
  }
  // The other profiler replaces CUPTI's callbacks, so that lent buffers never return, or it replaces the
  // clock.
  ticks_.Refresh();
  const Clock now = ReadClockDomain();
  const bool clock = now == Clock::kForeign || (now == Clock::kTicks && !ticks_.active());
  if (!clock && !records_outstanding()) {
    if (ticks_.active())
      note_ << "CUPTI stamps with the processor's counter, as torch.profiler leaves it: the stamps were "
               "converted, within "
            << static_cast<uint64_t>(ticks_.error().ns()) << " ns";
    return;
  }
  lost_ = true;
  ring::CountLoss(segment_->header(), LossReason::kContested, RecordKind::kPad, 1);
  note_ << (clock ? "another profiler replaced CUPTI's clock in the window"
                  : "CUPTI did not return all buffers: another profiler may have registered its own")
        << ", so records are missing";
  HolderName name;
  NameHolder(&note_, &name);
}

bool CuptiSource::Prepare(const CuptiApi& api) {
  if (armed_ || !dormant_.empty()) return false;
  api_ = api;
  Sentence unheard;
  if (api_.GetVersion(&version_) != Result::kSuccess || !CheckVersion(&unheard)) return false;
  ++sessions_;  // CUPTI may count it as a session; correlations of graphs are then dropped rather than wrong
  return api_.Enable(ActivityKind::kConcurrentKernel) == Result::kSuccess &&
         api_.Disable(ActivityKind::kConcurrentKernel) == Result::kSuccess;
}

bool CuptiSource::Enable(uint32_t activities, Sentence* why) {
  Result refusal = Result::kSuccess;
  if (enabled_.Enable(activities, &refusal, why)) return true;
  if (refusal != Result::kSuccess) Fail("cuptiActivityEnable", refusal, why);
  return false;
}

bool CuptiSource::Arm(const CuptiApi& api, uint32_t activities, const CuptiCallbacks& callbacks,
                      const CuptiMemory& memory, const ring::ClientSegment& segment, Sentence* why) {
  if (!dormant_.empty()) {
    *why = dormant_;
    return false;
  }
  held_ = false;
  holder_ = HolderName();
  api_ = api;
  if (const Result result = api_.GetVersion(&version_); result != Result::kSuccess) {
    return Fail("cuptiGetVersion", result, why);
  }
  if (!CheckVersion(why) || !CheckClock(why)) return false;
  ConverterOptions options;
  options.sizes = RecordSizes::Ask(api_);
  if (options.sizes.kernel < cupti::kKernelBytesOldest || options.sizes.memcpy < cupti::kMemcpyBytesOldest) {
    *why << "CUPTI " << version_ << " has an unknown record layout: use a newer Lockstep";
    return false;
  }
  options.ticks = &ticks_;
  options.trigger = &trigger_;
  options.driver_records = (activities & ring::kActivityDriver) != 0;
  options.decided_by_api =
      (activities & (ring::kActivityDriver | ring::kActivityRuntime | ring::kActivityNccl)) != 0;
  options.graph_correlation =
      version_ < cupti::kVersion_13_0 || version_ >= cupti::kVersion_13_1U1 || sessions_ == 0;
  ++sessions_;
  note_ = Sentence();
  lost_ = false;
  flush_error_ = Result::kSuccess;
  undescribed_ = (activities & kDeviceWork) != 0;
  segment_ = &segment;
  records_ = 0;
  outside_ = 0;
  if (pool_.in_use() == 0) pool_.Init(memory.buffers, buffers_.bytes);
  WarmBuffers();
  discard_ = memory.discard.data;
  ring::ClaimRing(segment.ring(0), static_cast<uint32_t>(::syscall(SYS_gettid)));
  converter_.Begin(api_, options, window_, segment.Writer(0), memory.names, ids_);
  count_dropped_.store(false);
  collecting_.store(true);
  armed_ = true;
  enabled_.Use(api_, version_);
  enabled_.UseSystemThreadIds();
  if (buffers_.zeros == CuptiBufferSettings::Zeros::kByUs && !enabled_.GiveZeroedBuffers())
    buffers_.zeros = CuptiBufferSettings::Zeros::kByCupti;
  const Result registered = api_.RegisterCallbacks(callbacks.requested, callbacks.completed);
  if (registered != Result::kSuccess) Fail("cuptiActivityRegisterCallbacks", registered, why);
  if (registered != Result::kSuccess || !Enable(activities, why)) {
    Abort();
    return false;
  }
  return true;
}

// Touches the buffers that a steady run needs, so that no application thread pays for their pages. A buffer
// that CUPTI has is left alone, because it may write there.
void CuptiSource::WarmBuffers() {
  std::byte* taken[kWarmCuptiBuffers] = {};
  for (std::byte*& buffer : taken) buffer = pool_.Acquire();
  for (std::byte* buffer : taken) {
    if (buffer == nullptr) continue;
    Arena::Touch({buffer, buffers_.bytes});
    pool_.Release(pool_.NumberOf(buffer));
  }
}

void CuptiSource::DiscardFreeBuffers() {
  uint32_t taken[BufferPool::kMost];
  uint32_t count = 0;
  for (std::byte* buffer = pool_.Acquire(); buffer != nullptr; buffer = pool_.Acquire())
    taken[count++] = pool_.NumberOf(buffer);
  for (uint32_t i = 0; i < count; ++i) {
    Arena::Discard({pool_.at(taken[i]), buffers_.bytes});
    pool_.Release(taken[i]);
  }
}

void CuptiSource::OpenWindow() {
  size_t before = 0;
  api_.GetNumDroppedRecords(nullptr, 0, &before);
  count_dropped_.store(true);
}

void CuptiSource::DescribeObjects() {
  // An older daemon would count these records as lost.
  if (!undescribed_ || segment_->header().layout_minor < ring::kMinorWithObjects) return;
  undescribed_ = false;
  enabled_.EnableObjects();
}

void CuptiSource::FlushAll(uint32_t flags) {
  const Result result = api_.FlushAll(flags);
  if (result != Result::kSuccess) flush_error_ = result;
}

void CuptiSource::Flush() {
  ticks_.Refresh();
  FlushAll(0);
  CountDropped();
}

void CuptiSource::WaitForWindow(MonoTime since) {
  MonoTime last_inside = since;
  uint32_t inside = converter_.buffers_inside();
  do {
    FlushAll(0);
    const MonoTime now = timing_.monotonic();
    if (converter_.buffers_inside() != inside) {
      inside = converter_.buffers_inside();
      last_inside = now;
    }
    if (converter_.unfinished_tracks() == 0 && inside != 0) return;
    if (now - last_inside > kQuiet) return;
    timing_.pause(kBetweenLooks);
  } while (timing_.monotonic() - since < kCompleteLimit);
}

void CuptiSource::Drain() {
  if (!armed_) return;
  MonoTime since = timing_.monotonic();
  // Recording continues. Work after the window on a stream or thread shows that it has no more records of the
  // window.
  WaitForWindow(since);
  enabled_.UndoAll();
  // CUPTI returns a buffer only when all its records are complete.
  for (FlushAll(0); records_outstanding() && timing_.monotonic() - since < kCompleteLimit; FlushAll(0)) {
    timing_.pause(kBetweenLooks);
  }
  FlushAll(cupti::kFlushForced);
  since = timing_.monotonic();
  while (records_outstanding() && timing_.monotonic() - since < kForcedLimit) timing_.pause(kBetweenLooks);
  CountDropped();
  CheckWindow();
  Finish();
}

void CuptiSource::Abort() {
  if (!armed_) return;
  collecting_.store(false);
  enabled_.UndoAll();
  FlushAll(cupti::kFlushForced);
  const MonoTime since = timing_.monotonic();
  while (records_outstanding() && timing_.monotonic() - since < kForcedLimit) timing_.pause(kBetweenLooks);
  Finish();
}

void CuptiSource::Finish() {
  collecting_.store(false);
  count_dropped_.store(false);
  // A thread may still convert and uses the ring until it is done. Its work is bounded.
  uint32_t nobody = 0;
  while (!converting_.compare_exchange_strong(nobody, 1)) {
    nobody = 0;
    timing_.pause(kBetweenLooks);
  }
  converter_.End();
  records_ = converter_.ring().records();
  outside_ = converter_.outside();
  ring::ReleaseRing(segment_->ring(0));
  armed_ = false;
  converting_.store(0);
}

}  // namespace lockstep::client
