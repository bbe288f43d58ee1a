// Makes host frames from NVTX ranges, for sources without PyTorch's own operators: live captures and Nsight
// Systems.
//
// It reads three spellings (docs/views/kernels.md, section layers). The first is that of
// torch.autograd.profiler.emit_nvtx: "aten::conv2d, seq = 12, sizes = [[64, 3, 7, 7], []]". The second are
// PyProf's markers: a Python dict with mod, op and args, inside a range whose dict has traceMarker. The third
// is a plain name.
//
// The texts come from the profiled program. A text in neither of the first two spellings is a plain name.
#ifndef LOCKSTEP_FORMATS_COMMON_NVTX_FRAMES_H_
#define LOCKSTEP_FORMATS_COMMON_NVTX_FRAMES_H_

#include <span>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::formats {

// `strings` holds the names of the ranges and receives those of the frames. Ranges without length are marks
// and do not become frames.
capture::HostFrames FramesOfRanges(std::span<const capture::HostRange> ranges, capture::StringTable& strings);

// Adds the frames to every process that has ranges and no frames.
void AddNvtxFrames(capture::Capture& capture);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_COMMON_NVTX_FRAMES_H_
