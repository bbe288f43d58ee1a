// NCCL's element types, and sums and the like of them on host memory.
#ifndef LOCKSTEP_SIM_NCCL_REDUCTION_H_
#define LOCKSTEP_SIM_NCCL_REDUCTION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "wire/foreign/nccl.h"

namespace lockstep::sim {

// 0: no such type.
size_t ElementBytes(foreign::ncclapi::ncclDataType_t type);
// "ncclFloat32", as events have it; "f32", as kernels' names have it.
const char* TypeName(foreign::ncclapi::ncclDataType_t type);
const char* TypeNameInKernels(foreign::ncclapi::ncclDataType_t type);
// The 8-bit floats are moved but not computed with.
bool CanReduce(foreign::ncclapi::ncclDataType_t type);

// out[i] = in[0][i] op in[1][i] op …, in that order on every rank, so that all get the same bits.
void ReduceInto(void* out, const std::vector<const void*>& in, size_t count,
                foreign::ncclapi::ncclDataType_t type, foreign::ncclapi::ncclRedOp_t op);

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_NCCL_REDUCTION_H_
