// Messages between two ranks among kernels that say nothing but SendRecv.
//
// Two channels of one partner each belong together when some shift pairs all their messages without a
// contradiction (message_fit.h), and of those that fit, ranks that work in step among them, what the whole
// job does alike is right: partners lie equally many ranks apart and use the same streams. What that leaves
// are channels with messages to several ranks (a pipeline's stage to the one before and the one after): a
// receiver that waits leaves with its sender, so ends that keep one distance tell. Pure functions, any
// thread.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_MESSAGE_INFERENCE_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_MESSAGE_INFERENCE_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "capture/align/message_fit.h"
#include "capture/infer/common_clock.h"

namespace lockstep::align {

struct MessageChannel {
  uint32_t rank = 0;
  uint32_t stream = 0;
  std::vector<Stay> stays;       // in order of end, all channels on one clock
  std::vector<uint32_t> places;  // the caller's numbers for them, in the same order
};

struct MessagePairing {
  uint32_t a = 0;  // into the channels; the sender unless it is an exchange
  uint32_t b = 0;
  bool exchange = false;         // both sides wait for each other
  std::vector<uint32_t> from_a;  // places, ascending
  std::vector<uint32_t> from_b;
};

// What two ranks meet in once in a while, on the channels' clock; empty where there is nothing.
using MeetingsOf = std::function<std::vector<Meeting>(uint32_t rank, uint32_t other)>;

// Whom a job's senders send to: how many ranks further, around the job's end, and the streams of both.
struct MessageRelation {
  uint32_t distance = 0;
  uint32_t send_stream = 0;
  uint32_t receive_stream = 0;
  auto operator<=>(const MessageRelation&) const = default;
};

struct WholeChannelPairings {
  std::vector<MessagePairing> pairings;
  std::vector<MessageRelation> relations;  // what they have in common
};

// Channels of one partner each. Those that leave together with several others on the same stream are left
// out: they are more likely an exchange of a group. `ranks`: of the job.
WholeChannelPairings PairWholeChannels(std::span<const MessageChannel> channels, uint32_t ranks,
                                       const MeetingsOf& meetings);

// Channels of several partners, and those whose lost records leave no shift. On streams of `relations` only
// these are looked at. A kernel is in at most one pairing.
std::vector<MessagePairing> PairMessageChannels(std::span<const MessageChannel> channels, uint32_t ranks,
                                                std::span<const MessageRelation> relations);

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_MESSAGE_INFERENCE_H_
