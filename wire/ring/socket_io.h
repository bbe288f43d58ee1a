// Sends and receives one packet of a SEQPACKET socket, with at most one descriptor. Both sides use it, so it
// needs only libc. It never raises SIGPIPE and never blocks. A received descriptor is close-on-exec.
#ifndef LOCKSTEP_WIRE_RING_SOCKET_IO_H_
#define LOCKSTEP_WIRE_RING_SOCKET_IO_H_

#include <cstddef>
#include <cstdint>

#include "base/fd.h"

namespace lockstep::ring {

enum class PacketStatus : uint8_t {
  kOk,
  kNothing,   // nothing to receive, or no room to send: poll and try again
  kClosed,    // the peer has closed the connection
  kTooLarge,  // the packet exceeded `capacity` and was discarded
  kError,     // errno has the reason
};

PacketStatus SendPacket(int socket, const void* bytes, size_t length, int descriptor = -1);

// *length receives the length of the packet. *descriptor receives its first descriptor, if there is one. Any
// others are closed.
PacketStatus ReceivePacket(int socket, void* bytes, size_t capacity, size_t* length, Fd* descriptor);

}  // namespace lockstep::ring

#endif  // LOCKSTEP_WIRE_RING_SOCKET_IO_H_
