// What NCCL's proxy thread told of a process's operations, as tables: channels at work on the host's clock,
// and network operations.
#ifndef LOCKSTEP_AGGREGATOR_STORE_RECORDS_TIMINGS_H_
#define LOCKSTEP_AGGREGATOR_STORE_RECORDS_TIMINGS_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "capture/store/records_join.h"
#include "capture/store/records_process.h"

namespace lockstep::store {

// GPU → its globaltimer against the host's clock.
using GpuTimers = absl::flat_hash_map<uint32_t, GpuTimer>;

// Fills tables.data's channel_timings and proxy_ops; call after JoinCollectives. A GPU's offset is the
// median, over the kernels whose channels are known, of the kernel's start minus the first of its channels'
// starts: a channel begins within its kernel, so the mapped stamps are early by the time the first channel
// took to begin, if at all. A channel of a GPU without any such kernel keeps the host stamps of NCCL's proxy
// thread.
GpuTimers JoinTimings(const GroupIndex& groups, ProcessTables& tables);

}  // namespace lockstep::store

#endif  // LOCKSTEP_AGGREGATOR_STORE_RECORDS_TIMINGS_H_
