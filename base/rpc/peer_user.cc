#include "base/rpc/peer_user.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "base/fd.h"
#include "base/rpc/socket_address.h"

namespace lockstep::rpc {
namespace {

struct Request {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

struct Place {
  __be32 address[4] = {};
  __be16 port = 0;
};

Place PlaceOf(const sockaddr_storage& socket) {
  Place place;
  place.port = htons(static_cast<uint16_t>(PortOf(socket)));
  if (socket.ss_family == AF_INET) {
    place.address[0] = reinterpret_cast<const sockaddr_in&>(socket).sin_addr.s_addr;
  } else {
    std::memcpy(place.address, &reinterpret_cast<const sockaddr_in6&>(socket).sin6_addr,
                sizeof(place.address));
  }
  return place;
}

// Returns a request for the socket whose own end is `near`.
Request RequestFor(sa_family_t family, const Place& near, const Place& far) {
  Request request{};
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.body.sdiag_family = static_cast<__u8>(family);
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states = ~__u32{0};
  inet_diag_sockid& id = request.body.id;
  id.idiag_sport = near.port;
  id.idiag_dport = far.port;
  std::memcpy(id.idiag_src, near.address, sizeof(id.idiag_src));
  std::memcpy(id.idiag_dst, far.address, sizeof(id.idiag_dst));
  id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
  id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return request;
}

// The kernel answers within the call to send().
std::optional<uid_t> Ask(const Request& request) {
  const Fd kernel(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG));
  if (!kernel.ok() ||
      ::send(kernel.get(), &request, sizeof(request), 0) != static_cast<ssize_t>(sizeof(request)))
    return std::nullopt;
  alignas(nlmsghdr) std::array<char, 4096> answer;
  const ssize_t length = ::recv(kernel.get(), answer.data(), answer.size(), 0);
  if (length < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg)))) return std::nullopt;
  nlmsghdr header;
  std::memcpy(&header, answer.data(), sizeof(header));
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;
  inet_diag_msg socket;
  std::memcpy(&socket, answer.data() + NLMSG_HDRLEN, sizeof(socket));
  return socket.idiag_uid;
}

}  // namespace

std::optional<uid_t> PeerUser(int fd) {
  sockaddr_storage peer{};
  sockaddr_storage own{};
  socklen_t length = sizeof(peer);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return std::nullopt;
  length = sizeof(own);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) != 0) return std::nullopt;
  if (peer.ss_family != AF_INET && peer.ss_family != AF_INET6) return std::nullopt;
  return Ask(RequestFor(peer.ss_family, PlaceOf(peer), PlaceOf(own)));
}

}  // namespace lockstep::rpc
