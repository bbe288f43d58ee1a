// Reads a network table (network.h) whose writer may be hostile, stopped in the middle of a write, or dead.
// The numbers are copies, and otherwise unchecked.
#ifndef LOCKSTEP_WIRE_RING_NETWORK_READER_H_
#define LOCKSTEP_WIRE_RING_NETWORK_READER_H_

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "wire/ring/segment.h"

namespace lockstep::ring {

enum class NetworkDirection : uint8_t { kReceive, kSend };

// An open network operation.
struct NetworkProgress {
  uint64_t communicator = 0;
  uint64_t position = 0;  // of the operation in the communicator; 0: not known
  HostTime started, moved;
  NetworkDirection direction = NetworkDirection::kReceive;
  int32_t peer = 0;
  uint32_t channel = 0;
  uint32_t steps = 0;  // 0: not known
  uint32_t steps_done = 0;
  // Of its oldest open step; kNone: no step is open. Steps end in the order of their begin, so this is the
  // wait that is furthest on.
  NetworkWait wait = NetworkWait::kNone;
};

// Returns the operations in the order of `moved`: those that have not moved for the longest time come first.
std::vector<NetworkProgress> ReadNetwork(const Segment& segment);

}  // namespace lockstep::ring

#endif  // LOCKSTEP_WIRE_RING_NETWORK_READER_H_
