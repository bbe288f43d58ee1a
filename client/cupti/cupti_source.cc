#include "client/cupti/cupti_source.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "wire/ring/handshake.h"

namespace lockstep::client {
namespace {

namespace cupti = foreign::cupti;
using cupti::ActivityKind;
using cupti::Result;
using ring::LossReason;
using ring::RecordKind;

// Beyond this CUPTI does not stamp with the host's clock: PyTorch's profiler leaves the processor's tick
// counter behind.
constexpr Nanos kSameClock = Nanos::Seconds(3600);

// Called all the time and never interesting.
constexpr uint32_t kNoise[] = {
    cupti::runtime_cbid::kGetLastError,      cupti::runtime_cbid::kPeekAtLastError,
    cupti::runtime_cbid::kGetDevice,         cupti::runtime_cbid::kStreamQuery,
    cupti::runtime_cbid::kStreamQueryPtsz,   cupti::runtime_cbid::kEventQuery,
    cupti::runtime_cbid::kStreamIsCapturing, cupti::runtime_cbid::kStreamIsCapturingPtsz,
};
// NCCL and graphs launch straight through the driver: without these their kernels have no call.
constexpr uint32_t kDriverLaunches[] = {
    cupti::driver_cbid::kLaunchKernel,   cupti::driver_cbid::kLaunchKernelPtsz,
    cupti::driver_cbid::kLaunchKernelEx, cupti::driver_cbid::kLaunchKernelExPtsz,
    cupti::driver_cbid::kGraphLaunch,    cupti::driver_cbid::kGraphLaunchPtsz,
    cupti::driver_cbid::kProfilerStart,  cupti::driver_cbid::kProfilerStop,
};
constexpr size_t kQuickBufferBytes = 64u << 10;

// What happens on a device, in a context, on a stream.
constexpr uint32_t kDeviceWork = ring::kActivityKernel | ring::kActivityMemcpy | ring::kActivityMemset |
                                 ring::kActivitySync | ring::kActivityMemory;

}  // namespace

// ---- CUPTI's threads ----

void CuptiSource::OnRequested(uint8_t** buffer, size_t* bytes, size_t* max_records) {
  *max_records = 0;
  std::byte* lent = pool_.Lend();
  if (lent == nullptr) {
    // None left. A CUPTI that survives it gets nothing and counts what it drops; an older one gets a place to
    // write whose contents nobody can vouch for.
    lent = version_ >= cupti::kVersion_12_9 ? nullptr : discard_;
  }
  *buffer = reinterpret_cast<uint8_t*>(lent);
  *bytes = lent == nullptr ? 0 : kCuptiBufferBytes;
  // A call of the profiler API is learned of when its buffer comes back, and a buffer comes back when all in
  // it has run.
  if (lent != nullptr && trigger_.phase() == Trigger::Phase::kLooking &&
      trigger_.begin() == ring::Begin::kAtProfilerStart) {
    *bytes = kQuickBufferBytes;
  }
}

void CuptiSource::OnCompleted(uint8_t* buffer, size_t valid_bytes) {
  const uint32_t number = pool_.NumberOf(reinterpret_cast<std::byte*>(buffer));
  if (number != BufferPool::kNone) {
    ConvertOrQueue(number, valid_bytes <= pool_.buffer_bytes() ? valid_bytes : 0);
  } else if (buffer == reinterpret_cast<uint8_t*>(discard_) && buffer != nullptr && count_dropped_.load()) {
    // Several threads may have written here at once, so its records are not trusted, only counted.
    cupti::Activity* record = nullptr;
    uint64_t lost = 0;
    while (api_.GetNextRecord(buffer, valid_bytes, &record) == Result::kSuccess) ++lost;
    ring::CountLoss(segment_->header(), LossReason::kCuptiDropped, RecordKind::kPad, lost);
  }
  CountDropped();
}

void CuptiSource::ConvertOrQueue(uint32_t number, size_t valid_bytes) {
  pool_.Enqueue(number, valid_bytes);
  // Whoever gets the claim works off what all left; looking again after giving it up means nothing stays
  // behind.
  while (pool_.queued()) {
    uint32_t nobody = 0;
    if (!converting_.compare_exchange_strong(nobody, 1)) return;
    pool_.DrainQueue([this](uint32_t n, size_t valid) {
      if (collecting_.load()) converter_.Convert(reinterpret_cast<uint8_t*>(pool_.at(n)), valid);
      pool_.GiveBack(n);
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

// ---- our thread ----

bool CuptiSource::Fail(const char* function, Result result, Sentence* why) {
  const char* text = nullptr;
  if (api_.GetResultString != nullptr) api_.GetResultString(result, &text);
  *why << function << " failed with " << static_cast<uint32_t>(result);
  if (text != nullptr) *why << " (" << text << ")";
  if (result == Result::kUnknown) *why << ": CUPTI cannot be used in this process";
  if (result == Result::kInsufficientPrivileges ||
      result == Result::kVirtualizedDeviceInsufficientPrivileges) {
    *why << ": the driver lets only administrators profile";
  }
  held_ = NameHolder(why, &holder_) || result == Result::kMultipleSubscribersNotSupported;
  dormant_ = *why;
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
    *why << "CUPTI 13.0.0 deadlocks when kernel records are switched off; CUDA 13.0 Update 1 or later works";
    return false;
  }
  return true;
}

CuptiSource::Clock CuptiSource::ReadClockDomain() const {
  uint64_t ns = 0;
  if (api_.GetTimestamp(&ns) != Result::kSuccess) return Clock::kUnknown;
  const Nanos difference = HostTime(static_cast<int64_t>(ns)) - timing_.realtime();
  return difference > kSameClock || difference < Nanos(-kSameClock.ns()) ? Clock::kForeign : Clock::kHosts;
}

bool CuptiSource::CheckClock(Sentence* why) {
  switch (ReadClockDomain()) {
    case Clock::kHosts:
      return true;
    case Clock::kUnknown:
      *why << "cuptiGetTimestamp failed: CUPTI cannot be used in this process";
      break;
    case Clock::kForeign:
      // A profiler that has ended leaves its clock behind, so nobody need be subscribed.
      held_ = true;
      holder_ << "a profiler that replaced its clock";
      *why << "CUPTI does not stamp with the host's clock in this process: another profiler, such as "
              "torch.profiler, replaced it";
      break;
  }
  held_ |= NameHolder(why, &holder_);
  return false;
}

void CuptiSource::LookForRivals() {
  // It takes CUPTI's callbacks with its own, so that the buffers we lent never come back, or its clock.
  const bool clock = ReadClockDomain() == Clock::kForeign;
  if (!clock && !buffers_lent()) return;
  ring::CountLoss(segment_->header(), LossReason::kContested, RecordKind::kPad, 1);
  note_ << (clock ? "another profiler replaced CUPTI's clock in the window"
                  : "CUPTI kept buffers: another profiler may have taken it over")
        << ", so records are missing";
  HolderName name;
  NameHolder(&note_, &name);
}

bool CuptiSource::Prepare(const CuptiApi& api) {
  if (armed_ || !dormant_.empty()) return false;
  api_ = api;
  Sentence unheard;
  if (api_.GetVersion(&version_) != Result::kSuccess || !CheckVersion(&unheard)) return false;
  ++sessions_;  // CUPTI may count it as one: better no correlations of graphs than wrong ones
  return api_.Enable(ActivityKind::kConcurrentKernel) == Result::kSuccess &&
         api_.Disable(ActivityKind::kConcurrentKernel) == Result::kSuccess;
}

void CuptiSource::Remember(Undo what, uint32_t argument) {
  if (undo_count_ < sizeof undo_ / sizeof undo_[0]) undo_[undo_count_++] = {what, argument};
}

void CuptiSource::UndoAll() {
  while (undo_count_ > 0) {
    const UndoStep step = undo_[--undo_count_];
    switch (step.what) {
      case Undo::kDisable:
        api_.Disable(static_cast<ActivityKind>(step.argument));
        break;
      case Undo::kDriverApi:
        api_.EnableDriverApi(step.argument, 0);
        break;
      case Undo::kThreadIdType:
        api_.SetThreadIdType(static_cast<cupti::ThreadIdType>(step.argument));
        break;
      case Undo::kSyncRecords:
        api_.EnableAllSyncRecords(1);
        break;
    }
  }
}

bool CuptiSource::EnableKind(ActivityKind kind, Sentence* why) {
  if (const Result result = api_.Enable(kind); result != Result::kSuccess) {
    *why << "kind " << static_cast<uint32_t>(kind) << ": ";
    return Fail("cuptiActivityEnable", result, why);
  }
  Remember(Undo::kDisable, static_cast<uint32_t>(kind));
  return true;
}

void CuptiSource::EnableOptional(ActivityKind kind) {
  if (RecordBytes(api_, kind) == 0) return;
  if (api_.Enable(kind) == Result::kSuccess) Remember(Undo::kDisable, static_cast<uint32_t>(kind));
}

void CuptiSource::EnableDriverLaunches() {
  if (api_.EnableDriverApi == nullptr) return;  // before 12.5: all driver calls or none, and all is too many
  for (uint32_t cbid : kDriverLaunches) {
    if (api_.EnableDriverApi(cbid, 1) == Result::kSuccess) Remember(Undo::kDriverApi, cbid);
  }
}

bool CuptiSource::EnableMemory(Sentence* why) {
  if (RecordBytes(api_, ActivityKind::kMemory) >= cupti::kMemoryBytesOldest)
    return EnableKind(ActivityKind::kMemory, why);
  *why << "CUPTI " << version_
       << " does not tell of memory operations (that of CUDA 11.2 and later does): capture without memory";
  return false;
}

bool CuptiSource::EnableKinds(uint32_t activities, Sentence* why) {
  if (activities & ring::kActivityKernel) {
    if (!EnableKind(ActivityKind::kConcurrentKernel, why)) return false;
    EnableOptional(ActivityKind::kOverhead);
  }
  if (activities & ring::kActivityMemcpy) {
    if (!EnableKind(ActivityKind::kMemcpy, why)) return false;
    EnableOptional(ActivityKind::kMemcpyPeer);
  }
  if ((activities & ring::kActivityMemset) && !EnableKind(ActivityKind::kMemset, why)) return false;
  if ((activities & ring::kActivityMemory) && !EnableMemory(why)) return false;
  if (activities & ring::kActivitySync) {
    if (!EnableKind(ActivityKind::kSynchronization, why)) return false;
    if (api_.EnableAllSyncRecords != nullptr && api_.EnableAllSyncRecords(0) == Result::kSuccess) {
      Remember(Undo::kSyncRecords, 0);
    }
    // What a stream waits for.
    EnableOptional(ActivityKind::kCudaEvent);
  }
  // Before the API records, so that none of them comes without its correlation.
  if ((activities & ring::kActivityNccl) && !EnableKind(ActivityKind::kExternalCorrelation, why))
    return false;
  if (activities & (ring::kActivityDriver | ring::kActivityNccl)) EnableDriverLaunches();
  if (activities & ring::kActivityRuntime) {
    if (!EnableKind(ActivityKind::kRuntime, why)) return false;
    if (api_.EnableRuntimeApi != nullptr) {
      for (uint32_t cbid : kNoise) api_.EnableRuntimeApi(cbid, 0);
    }
  }
  return true;
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
    *why << "CUPTI " << version_ << " has records of a layout this client does not know";
    return false;
  }
  options.trigger = &trigger_;
  options.driver_records = (activities & ring::kActivityDriver) != 0;
  options.decided_by_api =
      (activities & (ring::kActivityDriver | ring::kActivityRuntime | ring::kActivityNccl)) != 0;
  options.graph_correlation =
      version_ < cupti::kVersion_13_0 || version_ >= cupti::kVersion_13_1U1 || sessions_ == 0;
  ++sessions_;
  note_ = Sentence();
  undescribed_ = (activities & kDeviceWork) != 0;
  segment_ = &segment;
  records_ = 0;
  outside_ = 0;
  if (pool_.lent() == 0) pool_.Init(memory.buffers, kCuptiBufferBytes);
  discard_ = memory.discard.data;
  ring::ClaimRing(segment.ring(0), static_cast<uint32_t>(::syscall(SYS_gettid)));
  converter_.Begin(api_, options, window_, segment.Writer(0), memory.names, ids_);
  count_dropped_.store(false);
  collecting_.store(true);
  armed_ = true;
  if (api_.GetThreadIdType != nullptr && api_.SetThreadIdType != nullptr) {
    cupti::ThreadIdType before;
    if (api_.GetThreadIdType(&before) == Result::kSuccess &&
        api_.SetThreadIdType(cupti::ThreadIdType::kSystem) == Result::kSuccess) {
      Remember(Undo::kThreadIdType, static_cast<uint32_t>(before));
    }
  }
  const Result registered = api_.RegisterCallbacks(callbacks.requested, callbacks.completed);
  if (registered != Result::kSuccess) Fail("cuptiActivityRegisterCallbacks", registered, why);
  if (registered != Result::kSuccess || !EnableKinds(activities, why)) {
    Abort();
    return false;
  }
  return true;
}

}  // namespace lockstep::client
