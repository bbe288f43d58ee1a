// Spellings of collectives in PyTorch's profiler, shared by the code that reads and writes Kineto rows.
#ifndef LOCKSTEP_FORMATS_COMMON_KINETO_NAMES_H_
#define LOCKSTEP_FORMATS_COMMON_KINETO_NAMES_H_

#include <string_view>

#include "capture/model/collective_op.h"

namespace lockstep::formats {

// Returns "allreduce", "_allgather_base", … as in "Collective name"; empty for kUnknown.
std::string_view TorchCollectiveName(capture::CollectiveOp op);
// Returns "nccl:all_reduce", … as in the annotations around a launch; empty for kUnknown.
std::string_view TorchAnnotation(capture::CollectiveOp op);
// Converts "ncclFloat32" to "Float". Other spellings stay as they are.
std::string_view TorchDatatype(std::string_view datatype);
// Converts "ncclFloat32" and "Float" to "float", the C++ type in "Input type". TensorBoard's plugin knows six
// types and counts no bytes for others, so these get the name of a known type of the same size. Empty: the
// size is unknown.
std::string_view TensorBoardElementType(std::string_view datatype);
// True for PyTorch's ranges and operators around the wait for the next batch.
bool NamesDataLoader(std::string_view name);

// Values of the argument "lockstep" of a written range that extends beyond the recording.
inline constexpr std::string_view kOpenBegin = "open_begin";
inline constexpr std::string_view kOpenEnd = "open_end";
inline constexpr std::string_view kOpenBoth = "open_both";

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_COMMON_KINETO_NAMES_H_
