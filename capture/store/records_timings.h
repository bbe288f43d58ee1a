// Tables of the reports of NCCL's proxy thread on a process's operations: work of channels on the host's
// clock, and network operations.
#ifndef LOCKSTEP_CAPTURE_STORE_RECORDS_TIMINGS_H_
#define LOCKSTEP_CAPTURE_STORE_RECORDS_TIMINGS_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "capture/store/records_join.h"
#include "capture/store/records_process.h"

namespace lockstep::capture {

// GPU → its globaltimer relative to the host's clock.
using GpuTimers = absl::flat_hash_map<uint32_t, GpuTimer>;

// Fills tables.data's channel_timings and proxy_ops. Call after JoinCollectives. A GPU's offset is the median
// of the kernel's start minus the start of its first channel, over the kernels whose channels are known. A
// channel begins within its kernel. So mapped times are early by the time that the first channel needed to
// begin. Channels of a GPU without such kernels keep the host times of NCCL's proxy thread.
GpuTimers JoinTimings(const GroupIndex& groups, ProcessTables& tables);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_STORE_RECORDS_TIMINGS_H_
