// Regular layouts of communicators: blocks of equally many ranks, contiguous or a fixed number of places
// apart.
//
// Random errors that join or separate single channels average out over all blocks of a layout. Used by
// channel_clusters.h.
#ifndef LOCKSTEP_CAPTURE_INFER_CHANNEL_LAYOUTS_H_
#define LOCKSTEP_CAPTURE_INFER_CHANNEL_LAYOUTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "capture/infer/common_clock.h"

namespace lockstep::capture {

// A rank's kernels of one name.
struct KernelSequence {
  uint64_t signature = 0;
  std::vector<KernelInterval> intervals;  // in order of end
};

// The unit of comparison: a rank's kernels of one name on one stream, or of all names on that stream.
struct Channel {
  uint32_t rank = 0;
  std::vector<KernelSequence> sequences;  // by signature, each once
  const KernelSequence& Fullest() const;  // requires at least one sequence
};

// Comparison of the ends and starts of two channels.
struct ChannelPair {
  uint32_t a;  // a < b, indices of channels
  uint32_t b;
  double spread_ns;               // typical distance of their ends; infinite if they do not fit
  double scatter_ns;              // variation of that distance
  bool leaves_together;           // they leave together
  uint32_t pairs = 0;             // kernels of the most frequent name
  bool ends_far_nearer = true;    // their ends lie far nearer than their starts
  bool shows_no_waiting = false;  // they show no waiting: starts coincide too, or ends do not
};

// Up to this many channels, every pair is compared. Beyond it, only pairs that layouts allow are compared.
inline constexpr size_t kEveryPair = 64;
// Ends may be further apart by this many standard errors of a median ...
inline constexpr double kErrors = 4;
// ... and by this error of a common clock.
inline constexpr double kClockNs = 1e3;
// The length of an operation is steady for all its members together. It varies by less than this share of its
// variation for a part of them.
inline constexpr double kSteadier = 0.5;
// With fewer kernels, chance decides.
inline constexpr uint32_t kLeastPairs = 3;

using Blocks = std::vector<std::vector<uint32_t>>;  // places of channels

// Returns the layout whose members leave together as well as those of `found`. nullopt: no layout does, or
// channels share a rank.
std::optional<Blocks> LayoutThatLeavesTogether(std::span<const Channel> channels,
                                               std::span<const ChannelPair> pairs, const Blocks& found);

// Returns the layout in which nearly all members waited for each other and leave nearer to each other than to
// any other rank. Single pairs may differ by chance.
std::optional<Blocks> LayoutThatIsSeparate(std::span<const Channel> channels,
                                           std::span<const ChannelPair> pairs);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_INFER_CHANNEL_LAYOUTS_H_
