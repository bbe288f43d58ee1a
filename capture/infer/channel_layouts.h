// Regular jobs: their communicators are blocks of equally many ranks, contiguous or a fixed number of places
// apart.
//
// Over all blocks of a layout chance averages out that joins or parts single channels. Used by
// channel_clusters.h.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_CHANNEL_LAYOUTS_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_CHANNEL_LAYOUTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "capture/infer/common_clock.h"

namespace lockstep::align {

// A rank's kernels of one name.
struct Track {
  uint64_t token = 0;
  std::vector<Stay> stays;  // in order of end
};

// What is judged as one: a rank's kernels of one name on one stream, or of all names that the stream carries.
struct Channel {
  uint32_t rank = 0;
  std::vector<Track> tracks;     // by token, each once
  const Track& Fullest() const;  // there is one
};

// How two channels lie to each other.
struct ChannelPair {
  uint32_t a;  // a < b, places among the channels
  uint32_t b;
  double spread_ns;    // typical distance of their ends; infinite where they do not fit
  double scatter_ns;   // how much it varies
  bool together;       // they leave together
  uint32_t pairs = 0;  // kernels of the name that has most
  bool sharp = true;   // their ends lie far nearer than their starts
  bool apart = false;  // of waiting they show none: starts coincide too, or ends do not
};

// Every two of up to so many channels are looked at, beyond it only those that layouts allow.
inline constexpr size_t kEveryPair = 64;
// Ends may be further apart by this many standard errors of a median ...
inline constexpr double kErrors = 4;
// ... and by what a common clock may be off.
inline constexpr double kClockNs = 1e3;
// The operation's length is steady for all its members together: it varies by less than this part of what it
// does for some of them.
inline constexpr double kSteadier = 0.5;
// With fewer kernels chance decides.
inline constexpr uint32_t kTelling = 3;

using Blocks = std::vector<std::vector<uint32_t>>;  // places of channels

// The layout whose members leave together as well as those of `found` do; nullopt where none does, or
// channels share a rank.
std::optional<Blocks> LayoutThatLeavesTogether(std::span<const Channel> channels,
                                               std::span<const ChannelPair> pairs, const Blocks& found);

// The layout whose members nearly all waited for each other and all leave nearer to each other than to
// anybody else, whatever single pairs say by chance.
std::optional<Blocks> LayoutThatIsSeparate(std::span<const Channel> channels,
                                           std::span<const ChannelPair> pairs);

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_CHANNEL_LAYOUTS_H_
