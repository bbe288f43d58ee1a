// Links the Python functions that PyTorch's profiler records with with_stack=True to each other and to
// operators.
#ifndef LOCKSTEP_FORMATS_KINETO_PYTHON_STACKS_H_
#define LOCKSTEP_FORMATS_KINETO_PYTHON_STACKS_H_

#include <cstddef>

#include "capture/model/capture.h"
#include "capture/model/host_frames.h"

namespace lockstep::formats {

// A stack has at most this many calls, the innermost ones.
inline constexpr size_t kMostCalls = 128;

// A function ends at the latest with its caller, which `python_parent` names, because the profiler may give
// it a later end. An operator without a stack gets the functions around it on its thread. The caller of a
// function is the one that `python_parent` names, else the one around it in time. `frames` may be in any
// order and are sorted as HostFrames says; of frames with the same times, a caller comes first.
void LinkPythonFrames(capture::HostFrames& frames, capture::StringTable& strings);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_KINETO_PYTHON_STACKS_H_
