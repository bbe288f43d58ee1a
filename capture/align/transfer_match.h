// Which receive answers which send, between one pair of ranks.
//
// Messages from one rank to another arrive in order, so pairing is a question of where both sequences begin:
// the window cuts sender and receiver at different messages, and NCCL counts nothing. The right shift is the
// one at which the time from the later of the two starts to the receive's end, the message's transfer, is
// shortest: with a later send it would be negative, with an earlier one it would hold the receiver's waiting
// too.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_TRANSFER_MATCH_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_TRANSFER_MATCH_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/time.h"
#include "capture/align/message_fit.h"

namespace lockstep::align {

struct TransferSide {
  JobTime start;
  JobTime end;
  int64_t place = -1;  // among its channel's messages, those that were lost included; -1: unknown
};

struct TransferClocks {
  Nanos bound;                    // how far the two may be apart
  std::vector<Meeting> meetings;  // since JobTime()
  bool lost = false;              // records of either rank were lost
};

// Pairs of places (send, receive), ascending in both. Both sides are in order of start. Messages whose
// partner lies outside the window, or was lost, stay unpaired.
std::vector<std::pair<uint32_t, uint32_t>> PairTransfers(std::span<const TransferSide> sends,
                                                         std::span<const TransferSide> receives,
                                                         const TransferClocks& clocks);

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_TRANSFER_MATCH_H_
