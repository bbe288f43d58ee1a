// Reads the kernel's socket addresses of IPv4 and IPv6. Any thread.
#ifndef LOCKSTEP_BASE_RPC_SOCKET_ADDRESS_H_
#define LOCKSTEP_BASE_RPC_SOCKET_ADDRESS_H_

#include <sys/socket.h>

#include <string>

namespace lockstep::rpc {

int PortOf(const sockaddr_storage& address);
void SetPort(sockaddr_storage& address, int port);
// Returns "10.0.0.7", "[::1]" or, for an address that is valid on one link only, "[fe80::1%2]".
std::string HostText(const sockaddr_storage& address);
// Returns HostText and the port: "10.0.0.7:41234".
std::string HostAndPortText(const sockaddr_storage& address);

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_BASE_RPC_SOCKET_ADDRESS_H_
