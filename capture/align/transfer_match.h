// Pairs the sends of one rank with the receives of another.
//
// Messages from one rank to another arrive in order, so the pairing depends only on where both sequences
// begin. The window cuts sender and receiver at different messages, and NCCL does not number them. A
// message's transfer lasts from the later of the two starts to the receive's end. The right shift has the
// shortest transfers. A later send would make them negative, and an earlier send would add the receiver's
// waiting.
#ifndef LOCKSTEP_CAPTURE_ALIGN_TRANSFER_MATCH_H_
#define LOCKSTEP_CAPTURE_ALIGN_TRANSFER_MATCH_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/time.h"
#include "capture/align/message_fit.h"

namespace lockstep::capture {

struct TransferSide {
  JobTime start;
  JobTime end;
  int64_t place = -1;         // index among its channel's messages, lost ones included; -1: unknown
  bool among_others = false;  // its kernel has other messages, for which it may stay longer
};

struct TransferClocks {
  Nanos bound;                         // largest difference of the two clocks
  std::vector<SyncPoint> sync_points;  // times are since JobTime()
  bool lost = false;                   // records of either rank were lost
};

// Returns pairs of indices (send, receive), ascending in both. Both sides are ordered by start. A message
// stays unpaired if its partner was lost or lies outside the window.
std::vector<std::pair<uint32_t, uint32_t>> PairTransfers(std::span<const TransferSide> sends,
                                                         std::span<const TransferSide> receives,
                                                         const TransferClocks& clocks);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_ALIGN_TRANSFER_MATCH_H_
