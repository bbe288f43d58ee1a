// Bytes of CUPTI 13.0's record of each kind.
#ifndef LOCKSTEP_SIM_CUPTI_RECORD_SIZE_H_
#define LOCKSTEP_SIM_CUPTI_RECORD_SIZE_H_

#include <cstddef>

#include "common/foreign/cupti.h"

namespace lockstep::sim {

// 0: a kind that the simulation neither makes nor steps over.
constexpr size_t RecordSize(foreign::cupti::ActivityKind kind) {
  using foreign::cupti::ActivityKind;
  namespace cupti = foreign::cupti;
  switch (kind) {
    case ActivityKind::kMemcpy:
      return sizeof(cupti::Memcpy6);
    case ActivityKind::kMemset:
      return sizeof(cupti::Memset4);
    case ActivityKind::kDriver:
    case ActivityKind::kRuntime:
    case ActivityKind::kInternalLaunchApi:
      return sizeof(cupti::Api);
    case ActivityKind::kDevice:
      return sizeof(cupti::Device5);
    case ActivityKind::kContext:
      return sizeof(cupti::Context3);
    case ActivityKind::kKernel:
    case ActivityKind::kConcurrentKernel:
      return sizeof(cupti::Kernel10);
    case ActivityKind::kOverhead:
      return sizeof(cupti::Overhead3);
    case ActivityKind::kMemcpyPeer:
      return sizeof(cupti::MemcpyPeer4);
    case ActivityKind::kCudaEvent:
      return sizeof(cupti::CudaEvent2);
    case ActivityKind::kStream:
      return sizeof(cupti::Stream);
    case ActivityKind::kSynchronization:
      return sizeof(cupti::Synchronization2);
    case ActivityKind::kExternalCorrelation:
      return sizeof(cupti::ExternalCorrelation);
    case ActivityKind::kGraphTrace:
      return sizeof(cupti::GraphTrace2);
    default:
      return 0;
  }
}

// Device work is in flight between launch and completion.
constexpr bool IsDeviceWork(foreign::cupti::ActivityKind kind) {
  using foreign::cupti::ActivityKind;
  return kind == ActivityKind::kConcurrentKernel || kind == ActivityKind::kMemcpy ||
         kind == ActivityKind::kMemset;
}

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_CUPTI_RECORD_SIZE_H_
