// NCCL's operations in OTF2's words.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_OTF2_COLLECTIVE_H_
#define LOCKSTEP_AGGREGATOR_TRACE_OTF2_COLLECTIVE_H_

#include <otf2/otf2.h>

#include <cstdint>
#include <optional>

#include "capture/model/capture.h"

namespace lockstep::trace {

OTF2_RegionRole Otf2RoleOf(store::CollectiveOp op);
// Of operations that have a collective's record (otf2_plan.h).
OTF2_CollectiveOp Otf2OpOf(store::CollectiveOp op);

// What one rank gives and gets as the operation defines it, not what travels.
struct Otf2Bytes {
  uint64_t sent = 0;
  uint64_t received = 0;
};
// nullopt: unknown. `group_size` 0: unknown.
std::optional<Otf2Bytes> Otf2BytesOf(const store::Collective& collective, int32_t group_size, bool is_root);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_OTF2_COLLECTIVE_H_
