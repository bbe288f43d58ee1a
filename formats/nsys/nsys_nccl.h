// NCCL's NVTX ranges joined to the kernels that they launched.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_NSYS_NCCL_H_
#define LOCKSTEP_AGGREGATOR_TRACE_NSYS_NCCL_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "formats/nsys/nsys_file.h"

namespace lockstep::trace {

// What a call said of a kernel, which is `place` of the activities of `device` of the process.
struct NcclKernel {
  size_t device = 0;
  uint32_t place = 0;
  NcclPayload payload;
  NameId name;  // of the call
};

struct NcclJoin {
  std::vector<NcclKernel> kernels;
  uint64_t ambiguous = 0;  // calls of which several kernels of one group could be theirs
};

// Calls without a payload tell nothing that their names do not. A call outside of a group launches inside its
// range; the calls of a group launch inside the range that ends the group, and which kernel is whose is told
// by kind, and by order among those alike.
NcclJoin JoinNcclCalls(const store::StringTable& strings, NsysProcess& process);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_NSYS_NCCL_H_
