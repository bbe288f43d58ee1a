// Gives the size of a record of each kind in the CUPTI release that the simulation claims to be. Releases
// only append fields, so that an older record is a prefix of the newest one.
#ifndef LOCKSTEP_SIM_CUPTI_RECORD_SIZE_H_
#define LOCKSTEP_SIM_CUPTI_RECORD_SIZE_H_

#include <cstddef>
#include <cstdint>

#include "wire/foreign/cupti.h"

namespace lockstep::sim {

constexpr size_t KernelRecordSize(uint32_t version) {
  namespace cupti = foreign::cupti;
  if (version >= cupti::kVersion_13_0) return sizeof(cupti::Kernel10);
  if (version >= cupti::kVersion_12_0) return offsetof(cupti::Kernel10, is_device_launched);
  if (version >= cupti::kVersion_11_8) return offsetof(cupti::Kernel10, max_potential_cluster_size);
  if (version >= cupti::kVersion_11_6) return cupti::kKernelBytesWithChannel;
  if (version >= cupti::kVersion_11_2) return offsetof(cupti::Kernel10, channel_id);
  return version >= cupti::kVersion_11_0 ? cupti::kKernelBytesWithGraph : cupti::kKernelBytesOldest;
}

// Memcpy, MemcpyPtoP and Memset grew by 8 bytes at the same releases, except at the last one.
constexpr size_t CopyRecordSize(uint32_t version, size_t oldest, size_t newest) {
  namespace cupti = foreign::cupti;
  size_t size = oldest;
  if (version >= cupti::kVersion_11_0) size = oldest + 8;
  if (version >= cupti::kVersion_11_1) size = oldest + 16;
  if (version >= cupti::kVersion_11_6) size = oldest + 24;
  if (version >= cupti::kVersion_12_8) size = newest;
  return size < newest ? size : newest;
}

// Returns 0 for a kind that the simulation neither makes nor skips.
constexpr size_t RecordSize(foreign::cupti::ActivityKind kind,
                            uint32_t version = foreign::cupti::kVersion_13_0U1) {
  using foreign::cupti::ActivityKind;
  namespace cupti = foreign::cupti;
  const bool has_12_8 = version >= cupti::kVersion_12_8;
  switch (kind) {
    case ActivityKind::kMemcpy:
      return CopyRecordSize(version, cupti::kMemcpyBytesOldest, sizeof(cupti::Memcpy6));
    case ActivityKind::kMemset:
      return CopyRecordSize(version, cupti::kMemsetBytesOldest, sizeof(cupti::Memset4));
    case ActivityKind::kMemcpyPeer:
      return CopyRecordSize(version, cupti::kMemcpyPeerBytesOldest, sizeof(cupti::MemcpyPeer4));
    case ActivityKind::kKernel:
    case ActivityKind::kConcurrentKernel:
      return KernelRecordSize(version);
    case ActivityKind::kDriver:
    case ActivityKind::kRuntime:
    case ActivityKind::kInternalLaunchApi:
      return sizeof(cupti::Api);
    case ActivityKind::kSynchronization:
      return has_12_8 ? sizeof(cupti::Synchronization2) : cupti::kSynchronizationBytesOldest;
    case ActivityKind::kCudaEvent:
      return has_12_8 ? sizeof(cupti::CudaEvent2) : cupti::kCudaEventBytesOldest;
    case ActivityKind::kOverhead:
      return version >= cupti::kVersion_12_4 ? sizeof(cupti::Overhead3) : cupti::kOverheadBytesOldest;
    case ActivityKind::kContext:
      if (version >= cupti::kVersion_13_0) return sizeof(cupti::Context3);
      return version >= cupti::kVersion_12_4 ? offsetof(cupti::Context3, cig_mode)
                                             : offsetof(cupti::Context3, parent_context_id);
    case ActivityKind::kDevice:
      return sizeof(cupti::Device5);
    case ActivityKind::kStream:
      return sizeof(cupti::Stream);
    case ActivityKind::kMemory:
      // Three layouts exist. Only the release of the first and the size of the last in 13.0 are known. The
      // second is assumed to begin with 12.0.
      if (version < cupti::kVersion_11_2) return 0;
      if (version >= cupti::kVersion_13_0) return sizeof(cupti::Memory4);
      return version >= cupti::kVersion_12_0 ? cupti::kMemoryBytesWithUtilized : cupti::kMemoryBytesOldest;
    case ActivityKind::kExternalCorrelation:
      return sizeof(cupti::ExternalCorrelation);
    case ActivityKind::kGraphTrace:
      return sizeof(cupti::GraphTrace2);
    default:
      return 0;
  }
}

// Device work is in flight from its launch to its completion.
constexpr bool IsDeviceWork(foreign::cupti::ActivityKind kind) {
  using foreign::cupti::ActivityKind;
  return kind == ActivityKind::kConcurrentKernel || kind == ActivityKind::kMemcpy ||
         kind == ActivityKind::kMemset || kind == ActivityKind::kMemcpyPeer ||
         kind == ActivityKind::kGraphTrace;
}

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_CUPTI_RECORD_SIZE_H_
