// Finds the channels of ranks that are one communicator: those whose ends coincide. This is the core of
// communicator_inference.h.
#ifndef LOCKSTEP_CAPTURE_INFER_CHANNEL_CLUSTERS_H_
#define LOCKSTEP_CAPTURE_INFER_CHANNEL_CLUSTERS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "capture/infer/channel_layouts.h"

namespace lockstep::capture {

struct ChannelCluster {
  std::vector<uint32_t>
      channels;  // indices into the input, ascending by rank; at least two, of different ranks
  double inside_ns =
      0;  // typical distance of a member's ends from the nearest other member's, for the worst member
  double outside_ns = 0;  // distance of the nearest channel that is not a member; infinite without one
};

enum class Evidence : uint8_t {
  kEnds,     // ends coincide
  kWaiting,  // ends coincide although starts do not, and the layout is regular; otherwise messages that ranks
             // send in step would look like one communicator
};

// All intervals are on one clock. A channel is in at most one cluster.
std::vector<ChannelCluster> ClusterChannels(std::span<const Channel> channels, Evidence evidence);

// True if both have about equally many kernels of each name, apart from window edges and lost records.
bool SimilarChannels(const Channel& a, const Channel& b);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_INFER_CHANNEL_CLUSTERS_H_
