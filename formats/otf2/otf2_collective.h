// Converts NCCL's operations to OTF2's terms.
#ifndef LOCKSTEP_FORMATS_OTF2_OTF2_COLLECTIVE_H_
#define LOCKSTEP_FORMATS_OTF2_OTF2_COLLECTIVE_H_

#include <otf2/otf2.h>

#include <cstdint>
#include <optional>

#include "capture/model/capture.h"

namespace lockstep::formats {

OTF2_RegionRole Otf2RoleOf(capture::CollectiveOp op);
// `op` must have a collective record (otf2_plan.h).
OTF2_CollectiveOp Otf2OpOf(capture::CollectiveOp op);

// Bytes that one rank contributes and receives by the operation's definition, not the bytes on the network.
struct Otf2Bytes {
  uint64_t sent = 0;
  uint64_t received = 0;
};
// nullopt: unknown. `group_size` 0: unknown.
std::optional<Otf2Bytes> Otf2BytesOf(const capture::Collective& collective, int32_t group_size, bool is_root);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_OTF2_OTF2_COLLECTIVE_H_
