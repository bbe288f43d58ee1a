// Joins NCCL's NVTX ranges with the kernels that they launched.
#ifndef LOCKSTEP_FORMATS_NSYS_NSYS_NCCL_H_
#define LOCKSTEP_FORMATS_NSYS_NSYS_NCCL_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "formats/nsys/nsys_file.h"

namespace lockstep::formats {

// The payload of a call for one of its kernels: activity `place` of the process's device `device`.
struct NcclKernel {
  size_t device = 0;
  uint32_t activity = 0;
  NcclPayload payload;
  NameId name;  // of the call
};

struct NcclJoin {
  std::vector<NcclKernel> kernels;
  uint64_t ambiguous = 0;  // calls of a group that match several of its kernels
};

// A call outside a group launches its kernel inside its range. The calls of a group launch theirs inside the
// range that ends the group; they are matched to kernels by kind, and by order within one kind. Calls without
// a payload are left out, because their names say as much.
NcclJoin JoinNcclCalls(const capture::StringTable& strings, NsysProcess& process);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_NSYS_NSYS_NCCL_H_
