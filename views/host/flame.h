// Sums the time of a capture by stacks of frames, for flame graphs.
//
// The stacks of all calls that have the same frames, outermost first, become one place in a tree. PyTorch's
// export_stacks() and Brendan Gregg's flame graphs define the sums in the same way.
#ifndef LOCKSTEP_VIEWS_HOST_FLAME_H_
#define LOCKSTEP_VIEWS_HOST_FLAME_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/prepare/steps.h"
#include "capture/model/capture.h"

namespace lockstep::views {

// The frames of a stack, and the time that counts.
enum class FlameKind : uint8_t {
  kDevice,  // operators, ranges and modules around a launch, then the activity; its time on the device
  kHost,    // operators, ranges and modules; the time of the innermost one on the host
  kPython,  // Python functions, and the same; the time of the innermost one on the host
};

enum class FlameRoots : uint8_t {
  kFrames,  // ranks are summed
  kRanks,   // the outermost frame is the rank
};

struct FlameNode {
  std::string_view name;
  uint32_t parent = capture::kNone;  // place in FlameTree::nodes; kNone: an outermost frame
  uint64_t count = 0;                // calls with this frame innermost
  Nanos self;                        // time with this frame innermost
  Nanos total;                       // self, and the time of the frames inside
};

// Texts point into the capture, and those of ranks into `names`.
struct FlameTree {
  std::vector<FlameNode> nodes;  // each comes before the frames inside it; none has a total of 0
  std::deque<std::string> names;
};

struct FlameOptions {
  FlameKind kind = FlameKind::kDevice;
  FlameRoots roots = FlameRoots::kFrames;
  RankId rank = kNoRank;  // only this rank; kNoRank: all
  // Counts only calls and activities that begin in a used step of their rank. Null: counts all of them.
  const analysis::Steps* steps = nullptr;
};

// `capture` outlives the tree. Frames need formats::HostDetail::kFrames; without them, the stack of an
// activity has only its name. All steps have one name. If no Python function was recorded, kPython uses the
// stacks that PyTorch recorded with operators (with_stack=True).
FlameTree BuildFlame(const capture::Capture& capture, const FlameOptions& options);

// Returns one line per stack with time of its own: the frames, outermost first and separated by ';', a blank,
// and the nanoseconds. A ';' or line end in a name becomes ','; another control
// character becomes '?'. The lines are sorted.
std::string FoldedStacks(const FlameTree& tree);

// The number by which the times of a capture are divided.
struct FlameParts {
  uint64_t before = 1, after = 1;
};
// Returns one line per stack of either tree: the frames, the nanoseconds before and those after, each divided
// by its number of parts.
std::string FoldedDifference(const FlameTree& before, const FlameTree& after, const FlameParts& parts);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_HOST_FLAME_H_
