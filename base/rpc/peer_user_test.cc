#include "base/rpc/peer_user.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "gtest/gtest.h"

namespace lockstep::rpc {
namespace {

// Both ends of a TCP connection on loopback.
struct TcpEnds {
  Fd listener, client, server;
};

TcpEnds ConnectedEnds(sa_family_t family) {
  sockaddr_storage address{};
  address.ss_family = family;
  if (family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(address).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  } else {
    reinterpret_cast<sockaddr_in6&>(address).sin6_addr = in6addr_loopback;
  }
  socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  TcpEnds ends;
  ends.listener.reset(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ends.client.reset(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (bind(ends.listener.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(ends.listener.get(), 1) != 0 ||
      getsockname(ends.listener.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      connect(ends.client.get(), reinterpret_cast<sockaddr*>(&address), length) != 0)
    return ends;
  ends.server.reset(accept(ends.listener.get(), nullptr, nullptr));
  return ends;
}

TEST(PeerUserTest, IsTheUserOfTheOtherEnd) {
  const TcpEnds ends = ConnectedEnds(AF_INET);
  ASSERT_TRUE(ends.server.ok());
  // The server's socket has its owner from accept(), the client's from socket(): make them differ.
  if (geteuid() == 0) {
    ASSERT_EQ(fchown(ends.client.get(), 1234, 1234), 0);
    EXPECT_EQ(PeerUser(ends.server.get()), 1234u);
  }
  EXPECT_EQ(PeerUser(ends.client.get()), geteuid());
}

TEST(PeerUserTest, WorksOverIpv6) {
  const TcpEnds ends = ConnectedEnds(AF_INET6);
  // Many containers have no IPv6 at all. IsTheUserOfTheOtherEnd covers the rest of the code.
  if (!ends.server.ok()) GTEST_SKIP() << "this machine has no IPv6 loopback";
  EXPECT_EQ(PeerUser(ends.server.get()), geteuid());
}

TEST(PeerUserTest, ASocketWithoutALocalPeerHasNoUser) {
  const Fd unconnected(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(PeerUser(unconnected.get()), std::nullopt);
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const Fd one(pair[0]), other(pair[1]);
  EXPECT_EQ(PeerUser(one.get()), std::nullopt);
}

}  // namespace
}  // namespace lockstep::rpc
