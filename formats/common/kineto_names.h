// How PyTorch's profiler spells what a collective is: shared by the rows that say it.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_KINETO_NAMES_H_
#define LOCKSTEP_AGGREGATOR_TRACE_KINETO_NAMES_H_

#include <string_view>

#include "capture/model/collective_op.h"

namespace lockstep::trace {

// "allreduce", "_allgather_base", … as in "Collective name"; empty for kUnknown.
std::string_view TorchCollectiveName(store::CollectiveOp op);
// "nccl:all_reduce", … as in the annotations around a launch; empty for kUnknown.
std::string_view TorchAnnotation(store::CollectiveOp op);
// "ncclFloat32" → "Float"; other spellings are left alone.
std::string_view TorchDatatype(std::string_view datatype);
// "ncclFloat32" and "Float" → "float": the C++ type, as in "Input type"; TensorBoard's plugin counts no bytes
// of other spellings.
std::string_view TorchElementType(std::string_view datatype);
// PyTorch's own ranges and operators around the wait for the next batch.
bool NamesDataLoader(std::string_view name);

// What the argument "lockstep" of a range that our writer wrote says: it reaches beyond the recording.
inline constexpr std::string_view kOpenBegin = "open_begin";
inline constexpr std::string_view kOpenEnd = "open_end";
inline constexpr std::string_view kOpenBoth = "open_both";

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_KINETO_NAMES_H_
