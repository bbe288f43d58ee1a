// Builds the tree of a process's frames, with the device time of each frame.
//
// Self host time is a frame's length minus that of the frames directly inside it. Device time is the sum of
// the durations of the activities (kernels, copies, sets) that a frame launched. Self device time counts
// launches directly in the frame. Total device time also counts launches in the frames inside it. Concurrent
// activities each count in full, so that figures add up. PyTorch and torch-tb-profiler define the times in
// the same way.
#ifndef LOCKSTEP_VIEWS_HOST_HOST_TREE_H_
#define LOCKSTEP_VIEWS_HOST_HOST_TREE_H_

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "capture/model/capture.h"
#include "views/host/process.h"

namespace lockstep::views {

// The kinds of frames that become nodes. Frames of other kinds are ignored.
class FrameKinds {
 public:
  constexpr FrameKinds(std::initializer_list<capture::FrameKind> kinds) {
    for (const capture::FrameKind kind : kinds) bits_ |= 1u << static_cast<unsigned>(kind);
  }
  constexpr bool Has(capture::FrameKind kind) const {
    return (bits_ >> static_cast<unsigned>(kind) & 1) != 0;
  }

 private:
  uint32_t bits_ = 0;
};

// The kinds in PyTorch's own tables.
inline constexpr FrameKinds kOperatorsAndAnnotations{capture::FrameKind::kOperator,
                                                     capture::FrameKind::kAnnotation};

struct HostNode {
  uint32_t frame = capture::kNone;   // index into HostFrames::frames
  uint32_t parent = capture::kNone;  // index into HostTree::nodes
  Nanos host;
  Nanos self_host;
  Nanos device;
  Nanos self_device;
};

// An activity of one of the process's devices.
struct ActivityRef {
  uint32_t entry = 0;  // index into Capture::ranks
  uint32_t activity = 0;
};

struct Launch {
  ActivityRef activity;
  uint32_t node = capture::kNone;  // the innermost node around the launching call; kNone: there is none, or
                                   // the call is unknown
};

struct HostTree {
  std::vector<HostNode> nodes;   // thread by thread; each node comes before the nodes inside it
  std::vector<Launch> launches;  // one per activity, entry by entry
  uint64_t crossing = 0;  // frames that begin inside another frame of their thread and end after it; they do
                          // not count as inside it

  // Returns the innermost node of the thread at that time; kNone: there is none.
  uint32_t At(const capture::HostFrames& frames, ThreadId thread, HostTime time) const;
};

// `process.frames` must not be null.
HostTree BuildHostTree(const capture::Capture& capture, const Process& process, FrameKinds kinds);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_HOST_HOST_TREE_H_
