// Messages between two ranks among kernels that say nothing but SendRecv.
//
// A receiver that waits leaves together with its sender, and so do both sides of an exchange; a receiver that comes late says
// nothing. So two channels belong together when many of their ends keep one distance and few lie near it otherwise. One channel may
// hold messages to several ranks (a pipeline's stage to the one before and the one after). Pure functions, any thread.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_MESSAGE_INFERENCE_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_MESSAGE_INFERENCE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "aggregator/align/common_clock.h"

namespace lockstep::align {

struct MessageChannel {
  uint32_t rank = 0;
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

// A kernel is in at most one pairing.
std::vector<MessagePairing> PairMessageChannels(std::span<const MessageChannel> channels);

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_MESSAGE_INFERENCE_H_
