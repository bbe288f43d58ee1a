#include "client/connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "wire/ring/socket_io.h"

namespace lockstep::client {

using ring::PacketStatus;

ring::MessageType Message::type() const {
  ring::MessageHeader header{};
  if (length < sizeof header) return {};
  std::memcpy(&header, bytes, sizeof header);
  return header.magic == ring::kHandshakeMagic && header.bytes == length ? header.type : ring::MessageType{};
}

bool Connection::Open(const SocketPlaces& places, uid_t uid) {
  for (int i = 0; i < places.count; ++i) {
    const char* path = places.place[i].path;
    if (CheckSocketFolder(path, uid) != FolderVerdict::kUsable) continue;
    const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return false;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path, kMaxSocketPath);
    // A Unix socket connects at once or not at all. EAGAIN means that the daemon's queue is full, and the
    // next round tries again.
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
      return socket_.Take(fd);
    ::close(fd);
  }
  return false;
}

bool Connection::Send(const void* message, size_t bytes, int descriptor) {
  for (int tries = 0; tries < 2; ++tries) {
    const int fd = socket_.Use();
    if (fd < 0) return false;
    const PacketStatus status = ring::SendPacket(fd, message, bytes, descriptor);
    if (status == PacketStatus::kOk) return true;
    if (status != PacketStatus::kNothing) break;
    pollfd wait{fd, POLLOUT, 0};
    ::poll(&wait, 1, 1000);
  }
  Close();
  return false;
}

Connection::Got Connection::Receive(Nanos limit, Message* out) {
  int fd = socket_.Use();
  if (fd < 0) return Got::kLost;
  pollfd wait{fd, POLLIN, 0};
  const int64_t milliseconds = (limit.ns() + 999999) / 1000000;
  const int ready = ::poll(&wait, 1, static_cast<int>(milliseconds));
  if (ready == 0 || (ready < 0 && errno == EINTR)) return open() ? Got::kNothing : Got::kLost;
  // The application may have closed the descriptor and reused its number during the wait.
  fd = socket_.Use();
  if (ready < 0 || fd < 0) {
    Close();
    return Got::kLost;
  }
  switch (ring::ReceivePacket(fd, out->bytes, sizeof out->bytes, &out->length, &out->descriptor)) {
    case PacketStatus::kOk:
      return Got::kMessage;
    case PacketStatus::kNothing:
    case PacketStatus::kTooLarge:
      return Got::kNothing;  // a message of an unknown type
    case PacketStatus::kClosed:
    case PacketStatus::kError:
      break;
  }
  Close();
  return Got::kLost;
}

}  // namespace lockstep::client
