#include "client/cupti/record_sizes.h"

namespace lockstep::client {

namespace cupti = foreign::cupti;

RecordSizes RecordSizes::Ask(const CuptiApi& api) {
  RecordSizes sizes;
  sizes.kernel = RecordBytes(api, cupti::ActivityKind::kConcurrentKernel);
  sizes.memcpy = RecordBytes(api, cupti::ActivityKind::kMemcpy);
  sizes.memcpy_peer = RecordBytes(api, cupti::ActivityKind::kMemcpyPeer);
  sizes.memset = RecordBytes(api, cupti::ActivityKind::kMemset);
  sizes.synchronization = RecordBytes(api, cupti::ActivityKind::kSynchronization);
  sizes.cuda_event = RecordBytes(api, cupti::ActivityKind::kCudaEvent);
  sizes.device = RecordBytes(api, cupti::ActivityKind::kDevice);
  sizes.context = RecordBytes(api, cupti::ActivityKind::kContext);
  sizes.stream = RecordBytes(api, cupti::ActivityKind::kStream);
  sizes.memory = RecordBytes(api, cupti::ActivityKind::kMemory);
  return sizes;
}

}  // namespace lockstep::client
