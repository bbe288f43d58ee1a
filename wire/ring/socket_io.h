// One packet of a SEQPACKET socket with at most one descriptor beside it. libc only: both sides use it.
// Never raises SIGPIPE, never blocks; a received descriptor is close-on-exec.
#ifndef LOCKSTEP_COMMON_RING_SOCKET_IO_H_
#define LOCKSTEP_COMMON_RING_SOCKET_IO_H_

#include <cstddef>
#include <cstdint>

#include "base/fd.h"

namespace lockstep::ring {

enum class PacketStatus : uint8_t {
  kOk,
  kNothing,   // nothing to receive now, or no room to send now: poll and try again
  kClosed,    // the peer is gone
  kTooLarge,  // the packet did not fit in `capacity`; it is gone
  kError,     // errno says why
};

PacketStatus SendPacket(int socket, const void* bytes, size_t length, int descriptor = -1);

// *length is the packet's. *descriptor is the one that came with it, or none; any beyond the first are
// closed.
PacketStatus ReceivePacket(int socket, void* bytes, size_t capacity, size_t* length, Fd* descriptor);

}  // namespace lockstep::ring

#endif  // LOCKSTEP_COMMON_RING_SOCKET_IO_H_
