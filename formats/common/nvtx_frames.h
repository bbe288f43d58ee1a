// Host frames out of NVTX ranges, for sources that have no operators of PyTorch's own: live captures and
// Nsight Systems.
//
// Three spellings are read (docs/views.md, section layers): torch.autograd.profiler.emit_nvtx ("aten::conv2d,
// seq = 12, sizes =
// [[64, 3, 7, 7], []]"), PyProf's markers (a dict in Python's spelling with mod, op and args; around it one
// with traceMarker), and plain names. Texts come from the profiled program: whatever is no such spelling is a
// plain name.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_NVTX_FRAMES_H_
#define LOCKSTEP_AGGREGATOR_TRACE_NVTX_FRAMES_H_

#include <span>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::trace {

// `strings` holds the ranges' names and takes the frames'. Ranges without length are marks, and no frames.
store::HostFrames FramesOfRanges(std::span<const store::HostRange> ranges, store::StringTable& strings);

// Gives them to every process that has ranges and no frames.
void AddNvtxFrames(store::Capture& capture);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_NVTX_FRAMES_H_
