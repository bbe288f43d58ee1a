#include "client/cupti/enabled_activities.h"

#include "client/cupti/record_sizes.h"
#include "wire/ring/handshake.h"

namespace lockstep::client {
namespace {

namespace cupti = foreign::cupti;
using cupti::ActivityKind;
using cupti::Result;

// These functions are called very often and never matter.
constexpr uint32_t kIgnoredCalls[] = {
    cupti::runtime_cbid::kGetLastError,      cupti::runtime_cbid::kPeekAtLastError,
    cupti::runtime_cbid::kGetDevice,         cupti::runtime_cbid::kStreamQuery,
    cupti::runtime_cbid::kStreamQueryPtsz,   cupti::runtime_cbid::kEventQuery,
    cupti::runtime_cbid::kStreamIsCapturing, cupti::runtime_cbid::kStreamIsCapturingPtsz,
};
// NCCL and graphs launch directly through the driver, so without these records their kernels have no call.
constexpr uint32_t kDriverLaunches[] = {
    cupti::driver_cbid::kLaunchKernel,   cupti::driver_cbid::kLaunchKernelPtsz,
    cupti::driver_cbid::kLaunchKernelEx, cupti::driver_cbid::kLaunchKernelExPtsz,
    cupti::driver_cbid::kGraphLaunch,    cupti::driver_cbid::kGraphLaunchPtsz,
    cupti::driver_cbid::kProfilerStart,  cupti::driver_cbid::kProfilerStop,
};

}  // namespace

void EnabledActivities::UseSystemThreadIds() {
  if (api_->GetThreadIdType == nullptr || api_->SetThreadIdType == nullptr) return;
  cupti::ThreadIdType before;
  if (api_->GetThreadIdType(&before) == Result::kSuccess &&
      api_->SetThreadIdType(cupti::ThreadIdType::kSystem) == Result::kSuccess) {
    Remember(Undo::kThreadIdType, static_cast<uint32_t>(before));
  }
}

bool EnabledActivities::GiveZeroedBuffers() {
  if (api_->GetAttribute == nullptr || api_->SetAttribute == nullptr) return false;
  uint8_t before = 0, on = 1;
  size_t bytes = sizeof before;
  if (api_->GetAttribute(cupti::Attribute::kZeroedOutActivityBuffer, &bytes, &before) != Result::kSuccess)
    return false;
  bytes = sizeof on;
  if (api_->SetAttribute(cupti::Attribute::kZeroedOutActivityBuffer, &bytes, &on) != Result::kSuccess)
    return false;
  Remember(Undo::kZeroedBuffers, before);
  return true;
}

void EnabledActivities::Remember(Undo what, uint32_t argument) {
  if (undo_count_ < sizeof undo_ / sizeof undo_[0]) undo_[undo_count_++] = {what, argument};
}

void EnabledActivities::UndoAll() {
  while (undo_count_ > 0) {
    const UndoStep step = undo_[--undo_count_];
    switch (step.what) {
      case Undo::kDisable:
        api_->Disable(static_cast<ActivityKind>(step.argument));
        break;
      case Undo::kDriverApi:
        api_->EnableDriverApi(step.argument, 0);
        break;
      case Undo::kThreadIdType:
        api_->SetThreadIdType(static_cast<cupti::ThreadIdType>(step.argument));
        break;
      case Undo::kSyncRecords:
        api_->EnableAllSyncRecords(1);
        break;
      case Undo::kZeroedBuffers: {
        auto before = static_cast<uint8_t>(step.argument);
        size_t bytes = sizeof before;
        api_->SetAttribute(cupti::Attribute::kZeroedOutActivityBuffer, &bytes, &before);
        break;
      }
    }
  }
}

bool EnabledActivities::EnableKind(ActivityKind kind, Result* refusal, Sentence* why) {
  *refusal = api_->Enable(kind);
  if (*refusal != Result::kSuccess) {
    *why << "kind " << static_cast<uint32_t>(kind) << ": ";
    return false;
  }
  Remember(Undo::kDisable, static_cast<uint32_t>(kind));
  return true;
}

void EnabledActivities::EnableOptional(ActivityKind kind) {
  if (RecordBytes(*api_, kind) == 0) return;
  if (api_->Enable(kind) == Result::kSuccess) Remember(Undo::kDisable, static_cast<uint32_t>(kind));
}

void EnabledActivities::EnableDriverLaunches() {
  // CUPTI before 12.5 records all driver calls or none, and all are too many.
  if (api_->EnableDriverApi == nullptr) return;
  for (uint32_t cbid : kDriverLaunches) {
    if (api_->EnableDriverApi(cbid, 1) == Result::kSuccess) Remember(Undo::kDriverApi, cbid);
  }
}

bool EnabledActivities::EnableMemory(Result* refusal, Sentence* why) {
  if (RecordBytes(*api_, ActivityKind::kMemory) >= cupti::kMemoryBytesOldest)
    return EnableKind(ActivityKind::kMemory, refusal, why);
  *why
      << "CUPTI " << version_
      << " does not record memory operations (CUDA 11.2 and later does): capture without the activity memory";
  return false;
}

bool EnabledActivities::Enable(uint32_t activities, Result* refusal, Sentence* why) {
  if (activities & ring::kActivityKernel) {
    if (!EnableKind(ActivityKind::kConcurrentKernel, refusal, why)) return false;
    EnableOptional(ActivityKind::kOverhead);
  }
  if (activities & ring::kActivityMemcpy) {
    if (!EnableKind(ActivityKind::kMemcpy, refusal, why)) return false;
    EnableOptional(ActivityKind::kMemcpyPeer);
  }
  if ((activities & ring::kActivityMemset) && !EnableKind(ActivityKind::kMemset, refusal, why)) return false;
  if ((activities & ring::kActivityMemory) && !EnableMemory(refusal, why)) return false;
  if (activities & ring::kActivitySync) {
    if (!EnableKind(ActivityKind::kSynchronization, refusal, why)) return false;
    if (api_->EnableAllSyncRecords != nullptr && api_->EnableAllSyncRecords(0) == Result::kSuccess) {
      Remember(Undo::kSyncRecords, 0);
    }
    // Events show what a stream waits for.
    EnableOptional(ActivityKind::kCudaEvent);
  }
  // It must precede the API records, so that none of them comes without its correlation.
  if ((activities & ring::kActivityNccl) && !EnableKind(ActivityKind::kExternalCorrelation, refusal, why))
    return false;
  if (activities & (ring::kActivityDriver | ring::kActivityNccl)) EnableDriverLaunches();
  if (activities & ring::kActivityRuntime) {
    if (!EnableKind(ActivityKind::kRuntime, refusal, why)) return false;
    if (api_->EnableRuntimeApi != nullptr) {
      for (uint32_t cbid : kIgnoredCalls) api_->EnableRuntimeApi(cbid, 0);
    }
  }
  return true;
}

void EnabledActivities::EnableObjects() {
  // Without EnableAndDump, or if it fails, the capture is still valid, but its devices have no names.
  const auto enable = api_->EnableAndDump != nullptr ? api_->EnableAndDump : api_->Enable;
  constexpr struct {
    ActivityKind kind;
    size_t least_bytes;
  } kObjects[] = {{ActivityKind::kDevice, cupti::kDeviceBytesOldest},
                  {ActivityKind::kContext, cupti::kContextBytesOldest},
                  {ActivityKind::kStream, sizeof(cupti::Stream)}};
  for (const auto& object : kObjects) {
    if (RecordBytes(*api_, object.kind) < object.least_bytes || enable(object.kind) != Result::kSuccess)
      continue;
    Remember(Undo::kDisable, static_cast<uint32_t>(object.kind));
  }
}

}  // namespace lockstep::client
