// Joins NCCL's descriptions of a process's collectives to the kernels that ran them, and turns communicators
// into groups.
#ifndef LOCKSTEP_CAPTURE_STORE_RECORDS_JOIN_H_
#define LOCKSTEP_CAPTURE_STORE_RECORDS_JOIN_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "capture/model/capture.h"
#include "capture/store/records_process.h"

namespace lockstep::capture {

// NCCL's communicator id → index into Capture::groups.
using GroupIndex = absl::flat_hash_map<uint64_t, uint32_t>;

// Makes one group per communicator that any process mentions. Its members are known if every one of them
// described itself. `processes[i]` is world rank `ranks[i]`.
GroupIndex MakeGroups(const std::vector<ProcessTables>& processes, const std::vector<RankId>& ranks,
                      Capture& capture);

// Fills tables.data.collectives through launch serial → correlation → kernel. An operation on the copy
// engines has copies instead, and its Collective names the longest one. Drops a description whose kernel and
// copies are not in the capture, because they ran after the window or count as lost. Returns the number of
// descriptions inside the window that name no known launch or fit several kernels.
uint64_t JoinCollectives(const GroupIndex& groups, const StringTable& strings, ProcessTables& tables);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_STORE_RECORDS_JOIN_H_
