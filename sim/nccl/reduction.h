// Implements NCCL's element types and its reductions on host memory.
#ifndef LOCKSTEP_SIM_NCCL_REDUCTION_H_
#define LOCKSTEP_SIM_NCCL_REDUCTION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "wire/foreign/nccl.h"

namespace lockstep::sim {

// Returns 0 for an unknown type.
size_t ElementBytes(foreign::ncclapi::ncclDataType_t type);
// Return "ncclFloat32", as in events, and "f32", as in the names of kernels.
const char* TypeName(foreign::ncclapi::ncclDataType_t type);
const char* TypeNameInKernels(foreign::ncclapi::ncclDataType_t type);
// Floats of 16 and 8 bits are moved, but reductions of them are not supported.
bool CanReduce(foreign::ncclapi::ncclDataType_t type);

// Computes out[i] = in[0][i] op in[1][i] op … in that order on every rank, so that all get the same bits.
void ReduceInto(void* out, const std::vector<const void*>& in, size_t count,
                foreign::ncclapi::ncclDataType_t type, foreign::ncclapi::ncclRedOp_t op);

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_NCCL_REDUCTION_H_
