// What NCCL says of a process's collectives, joined to the kernels that ran them, and communicators as
// groups.
#ifndef LOCKSTEP_AGGREGATOR_STORE_RECORDS_JOIN_H_
#define LOCKSTEP_AGGREGATOR_STORE_RECORDS_JOIN_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "capture/model/capture.h"
#include "capture/store/records_process.h"

namespace lockstep::store {

// NCCL's communicator id → Capture::groups.
using GroupIndex = absl::flat_hash_map<uint64_t, uint32_t>;

// Makes one group per communicator that any process mentions. Members are known when every one of them
// described itself; `processes[i]` is world rank `ranks[i]`.
GroupIndex MakeGroups(const std::vector<ProcessTables>& processes, const std::vector<RankId>& ranks,
                      Capture& capture);

// Fills tables.data.collectives through launch serial → correlation → kernel. A description whose kernel is
// not in the capture is dropped: the kernel ran after the window, or is counted among the lost. Returns how
// many descriptions name no launch that is known, though one inside the window.
uint64_t JoinCollectives(const GroupIndex& groups, const StringTable& strings, ProcessTables& tables);

}  // namespace lockstep::store

#endif  // LOCKSTEP_AGGREGATOR_STORE_RECORDS_JOIN_H_
