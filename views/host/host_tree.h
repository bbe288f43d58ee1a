// How the frames of a process's threads lie in each other, and what each frame had its devices do.
//
// Self host time is a frame's length less that of the frames directly in it. Device time is the sum of the
// lengths of the activities (kernels, copies, sets) whose launching call lies in a frame: in it directly
// (self), or in it or in what it called (total). Concurrent activities each count whole, so that figures add
// up; it is PyTorch's definition and that of torch-tb-profiler.
#ifndef LOCKSTEP_AGGREGATOR_VIEWS_HOST_TREE_H_
#define LOCKSTEP_AGGREGATOR_VIEWS_HOST_TREE_H_

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "capture/model/capture.h"
#include "views/host/process.h"

namespace lockstep::views {

// Which kinds are nodes; the others are as if they were not there.
class FrameKinds {
 public:
  constexpr FrameKinds(std::initializer_list<store::FrameKind> kinds) {
    for (const store::FrameKind kind : kinds) bits_ |= 1u << static_cast<unsigned>(kind);
  }
  constexpr bool Has(store::FrameKind kind) const { return (bits_ >> static_cast<unsigned>(kind) & 1) != 0; }

 private:
  uint32_t bits_ = 0;
};

// What PyTorch's own tables are of.
inline constexpr FrameKinds kOperatorsAndAnnotations{store::FrameKind::kOperator,
                                                     store::FrameKind::kAnnotation};

struct HostNode {
  uint32_t frame = store::kNone;   // into HostFrames::frames
  uint32_t parent = store::kNone;  // into HostTree::nodes
  Nanos host;
  Nanos self_host;
  Nanos device;
  Nanos self_device;
};

// An activity of one of the process's devices.
struct ActivityRef {
  uint32_t entry = 0;  // into Capture::ranks
  uint32_t activity = 0;
};

struct Launch {
  ActivityRef activity;
  uint32_t node = store::kNone;  // the innermost that holds the launching call; kNone: none does, or the call
                                 // is not known
};

struct HostTree {
  std::vector<HostNode> nodes;   // thread by thread; each before those in it
  std::vector<Launch> launches;  // one for each activity, entry by entry
  uint64_t crossing =
      0;  // frames that begin in another of their thread and end after it; they count beside it, not in it

  // The innermost node of the thread at that moment; kNone: none.
  uint32_t At(const store::HostFrames& frames, ThreadId thread, HostTime time) const;
};

// `process.frames` must not be null.
HostTree BuildHostTree(const store::Capture& capture, const Process& process, FrameKinds kinds);

}  // namespace lockstep::views

#endif  // LOCKSTEP_AGGREGATOR_VIEWS_HOST_TREE_H_
