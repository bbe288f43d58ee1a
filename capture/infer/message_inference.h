// Infers messages between two ranks from kernels of which only the name SendRecv is known.
//
// Two channels with one partner each belong together if some shift pairs all their messages without a
// contradiction (message_fit.h). Ranks that work in step fit too. The right pairs are those that the whole
// job shares: partners lie equally many ranks apart and use the same streams. The remaining channels hold
// messages to several ranks, as from a pipeline stage to the previous and the next one. A receiver that waits
// leaves with its sender, so ends that keep one distance belong together. Pure functions, any thread.
#ifndef LOCKSTEP_CAPTURE_INFER_MESSAGE_INFERENCE_H_
#define LOCKSTEP_CAPTURE_INFER_MESSAGE_INFERENCE_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "capture/align/message_fit.h"
#include "capture/infer/common_clock.h"

namespace lockstep::capture {

struct MessageChannel {
  uint32_t rank = 0;
  uint32_t stream = 0;
  std::vector<KernelInterval> intervals;  // ordered by end; all channels are on one clock
  std::vector<uint32_t> places;           // the caller's numbers of the intervals, in the same order
};

struct MessagePairing {
  uint32_t a = 0;  // index of a channel; the sender, unless it is an exchange
  uint32_t b = 0;
  bool exchange = false;         // both sides wait for each other
  std::vector<uint32_t> from_a;  // places, ascending
  std::vector<uint32_t> from_b;
};

// Returns operations that two ranks share now and then, on the channels' clock; empty if there are none.
using SyncPointsOf = std::function<std::vector<SyncPoint>(uint32_t rank, uint32_t other)>;

// The relation of sender and receiver that a job shares: the distance in ranks, counted around the job's end,
// and the streams of both.
struct MessageRelation {
  uint32_t distance = 0;
  uint32_t send_stream = 0;
  uint32_t receive_stream = 0;
  auto operator<=>(const MessageRelation&) const = default;
};

struct WholeChannelPairings {
  std::vector<MessagePairing> pairings;
  std::vector<MessageRelation> relations;  // relations that the pairings share
};

// Pairs channels of one partner each. Leaves out channels that leave together with several others on the same
// stream, because these are more likely an exchange of a group. `ranks`: number of ranks in the job.
WholeChannelPairings PairWholeChannels(std::span<const MessageChannel> channels, uint32_t ranks,
                                       const SyncPointsOf& sync_points);

// Pairs channels of several partners, and channels whose lost records leave no single shift. On the streams
// of `relations`, only these relations are tried. A kernel is in at most one pairing.
std::vector<MessagePairing> PairMessageChannels(std::span<const MessageChannel> channels, uint32_t ranks,
                                                std::span<const MessageRelation> relations);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_INFER_MESSAGE_INFERENCE_H_
