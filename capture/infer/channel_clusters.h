// Which ranks' channels are one communicator: those whose ends coincide. The core of
// communicator_inference.h.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_CHANNEL_CLUSTERS_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_CHANNEL_CLUSTERS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "capture/infer/channel_layouts.h"

namespace lockstep::align {

struct ChannelCluster {
  std::vector<uint32_t> channels;  // places in the input, ascending by rank; at least two, of different ranks
  double inside_ns = 0;  // typical distance of a member's ends from the nearest other's, of the worst of them
  double outside_ns = 0;  // of the nearest that is no member; infinite where there is none
};

enum class Evidence : uint8_t {
  kEnds,     // ends that coincide
  kWaiting,  // ends that coincide although starts do not: else messages that ranks send in step look like
             // one; in regular layouts only
};

// All stays on one clock. A channel is in at most one cluster.
std::vector<ChannelCluster> ClusterChannels(std::span<const Channel> channels, Evidence evidence);

// As many kernels of each name, but for what windows cut and records were lost.
bool SimilarChannels(const Channel& a, const Channel& b);

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_CHANNEL_CLUSTERS_H_
