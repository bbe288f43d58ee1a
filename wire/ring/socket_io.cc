#include "wire/ring/socket_io.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace lockstep::ring {
namespace {

// A peer may attach more descriptors than expected. They are received only so that they can be closed.
constexpr size_t kMaxDescriptors = 16;

PacketStatus FromErrno() {
  if (errno == EAGAIN || errno == EWOULDBLOCK) return PacketStatus::kNothing;
  if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) return PacketStatus::kClosed;
  return PacketStatus::kError;
}

void TakeDescriptors(msghdr& message, Fd* out) {
  for (cmsghdr* control = CMSG_FIRSTHDR(&message); control != nullptr;
       control = CMSG_NXTHDR(&message, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int descriptor;
      std::memcpy(&descriptor, CMSG_DATA(control) + i * sizeof(int), sizeof descriptor);
      if (!out->ok()) {
        out->reset(descriptor);
      } else {
        ::close(descriptor);
      }
    }
  }
}

}  // namespace

PacketStatus SendPacket(int socket, const void* bytes, size_t length, int descriptor) {
  iovec part{const_cast<void*>(bytes), length};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  ssize_t sent;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? FromErrno() : PacketStatus::kOk;
}

PacketStatus ReceivePacket(int socket, void* bytes, size_t capacity, size_t* length, Fd* descriptor) {
  *length = 0;
  descriptor->reset();
  iovec part{bytes, capacity};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxDescriptors)];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t received;
  do {
    received = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0) return FromErrno();
  TakeDescriptors(message, descriptor);
  if (received == 0) return PacketStatus::kClosed;
  if ((message.msg_flags & MSG_TRUNC) != 0) {
    descriptor->reset();
    return PacketStatus::kTooLarge;
  }
  *length = static_cast<size_t>(received);
  return PacketStatus::kOk;
}

}  // namespace lockstep::ring
