// The network table of a segment: NCCL's network operations that are open, each with the waits of its steps.
//
// An operation carries one channel of a collective or message to or from one peer on another host, in steps.
// The client writes the table from the callbacks of NCCL's proxy thread. The daemon reads it on request, as
// the progress table (progress.h). docs/formats/ring.md describes it.
//
// An entry's fields are valid while its `use` is neither 0 nor changed. The writer stores 0, the fields, and
// then the use. Stamps are CLOCK_REALTIME in nanoseconds. The header needs no C++ library at run time.
#ifndef LOCKSTEP_WIRE_RING_NETWORK_H_
#define LOCKSTEP_WIRE_RING_NETWORK_H_

#include <atomic>
#include <cstdint>

namespace lockstep::ring {

inline constexpr uint32_t kNetworkEntries = 1024;  // power of two

// The reason why a step has not ended. NCCL has at most kStepsAtOnce open steps per operation.
enum class NetworkWait : uint8_t {
  kNone = 0,     // the step is not open
  kGpu = 1,      // send: for the GPU's data. Receive: for the GPU to take the data
  kPeer = 2,     // send: for the peer's buffer
  kNetwork = 3,  // send: for the network to complete it. Receive: for the peer's data
  kFlush = 4,    // receive: for the data to become visible to the GPU
};
inline constexpr uint32_t kStepsAtOnce = 8;

inline constexpr uint32_t kNetworkSend = 1u << 31;  // in NetworkEntry::channel

inline constexpr uint64_t kNetworkAlignment = 64;  // of the table in the segment

struct NetworkEntry {
  std::atomic<uint64_t> use;  // a number that no other use of the entry has; 0: free, or being written
  std::atomic<uint64_t> communicator;
  std::atomic<uint64_t> position;  // of the operation in the communicator, as in progress.h; 0: not known
  std::atomic<int64_t> started_ns;
  std::atomic<int64_t> moved_ns;  // a step began, ended, or began to wait for something else
  std::atomic<uint64_t> waits;    // one NetworkWait per byte, by the step's number & 7
  std::atomic<int32_t> peer;      // rank in the communicator
  std::atomic<uint32_t> channel;  // | kNetworkSend
  std::atomic<uint32_t> steps;    // in all; 0: NCCL did not state it
  std::atomic<uint32_t> steps_done;
};
static_assert(sizeof(NetworkEntry) == 64);

inline constexpr uint64_t kNetworkBytes = kNetworkEntries * sizeof(NetworkEntry);

}  // namespace lockstep::ring

#endif  // LOCKSTEP_WIRE_RING_NETWORK_H_
