#include "daemon/broker/messages.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace lockstep::daemon {
namespace {

struct RequestHead {
  uint32_t call;
  int32_t pid;
  uint32_t uid;
  uint32_t gid;
  uint64_t number;
  uint32_t text_bytes;
  uint32_t more_bytes;
};

struct ReplyHead {
  int32_t error;
  uint32_t has_info;
  uint64_t number;
  struct stat info;
};

using stat_t = struct stat;

union FdControl {
  cmsghdr align;
  std::array<char, CMSG_SPACE(sizeof(int))> bytes;
};

bool Send(int socket, iovec* parts, size_t count, int fd) {
  FdControl control = {};
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  if (fd >= 0) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(head), &fd, sizeof(int));
  }
  ssize_t n = 0;
  do {
    n = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  return n >= 0;
}

// Returns the number of bytes received, or -1 if the peer is gone or the packet does not fit.
ssize_t Receive(int socket, iovec* parts, size_t count, Fd& fd) {
  FdControl control = {};
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  ssize_t n = 0;
  do {
    n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n <= 0) return -1;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS ||
        head->cmsg_len != CMSG_LEN(sizeof(int)))
      continue;
    int received = -1;
    std::memcpy(&received, CMSG_DATA(head), sizeof(int));
    fd.reset(received);
  }
  return (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ? -1 : n;
}

iovec PartOf(const void* bytes, size_t size) { return {const_cast<void*>(bytes), size}; }

}  // namespace

bool SendRequest(int socket, const BrokerRequest& request) {
  if (request.text.size() + request.more.size() > kLargestBrokerText) return false;
  const RequestHead head = {static_cast<uint32_t>(request.call),
                            request.pid,
                            request.uid,
                            request.gid,
                            request.number,
                            static_cast<uint32_t>(request.text.size()),
                            static_cast<uint32_t>(request.more.size())};
  iovec parts[] = {PartOf(&head, sizeof(head)), PartOf(request.text.data(), request.text.size()),
                   PartOf(request.more.data(), request.more.size())};
  return Send(socket, parts, 3, request.fd.get());
}

std::optional<BrokerRequest> ReceiveRequest(int socket) {
  RequestHead head = {};
  std::string texts(kLargestBrokerText, '\0');
  iovec parts[] = {PartOf(&head, sizeof(head)), PartOf(texts.data(), texts.size())};
  BrokerRequest request;
  const ssize_t n = Receive(socket, parts, 2, request.fd);
  if (n < static_cast<ssize_t>(sizeof(head))) return std::nullopt;
  const size_t received = static_cast<size_t>(n) - sizeof(head);
  if (uint64_t{head.text_bytes} + head.more_bytes != received ||
      head.call > static_cast<uint32_t>(BrokerCall::kRemove))
    return std::nullopt;
  request.call = static_cast<BrokerCall>(head.call);
  request.pid = head.pid;
  request.uid = head.uid;
  request.gid = head.gid;
  request.number = head.number;
  request.text = texts.substr(0, head.text_bytes);
  request.more = texts.substr(head.text_bytes, head.more_bytes);
  return request;
}

bool SendReply(int socket, const BrokerReply& reply) {
  const ReplyHead head = {reply.error, reply.info.has_value() ? 1u : 0u, reply.number,
                          reply.info.value_or(stat_t{})};
  iovec part = PartOf(&head, sizeof(head));
  return Send(socket, &part, 1, reply.fd.get());
}

std::optional<BrokerReply> ReceiveReply(int socket) {
  ReplyHead head = {};
  iovec part = PartOf(&head, sizeof(head));
  BrokerReply reply;
  if (Receive(socket, &part, 1, reply.fd) != static_cast<ssize_t>(sizeof(head))) return std::nullopt;
  reply.error = head.error;
  reply.number = head.number;
  if (head.has_info != 0) reply.info = head.info;
  return reply;
}

std::pair<Fd, Fd> BrokerSocketPair() {
  int pair[2] = {-1, -1};
  (void)socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
  return {Fd(pair[0]), Fd(pair[1])};
}

void SetReceiveTimeout(int socket, Nanos timeout) {
  const timeval wait = {timeout.ns() / 1'000'000'000, timeout.ns() % 1'000'000'000 / 1000};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
}

}  // namespace lockstep::daemon
