// Identifies the user at the other end of a TCP connection within this machine.
#ifndef LOCKSTEP_BASE_RPC_PEER_USER_H_
#define LOCKSTEP_BASE_RPC_PEER_USER_H_

#include <sys/types.h>

#include <optional>

namespace lockstep::rpc {

// Returns the user who opened the socket at the other end of the connected TCP socket `fd`. It asks the
// kernel for that one socket (sock_diag(7)), so the time does not depend on the number of sockets. It returns
// nothing if the peer is on another machine or in another network namespace, or if the kernel has no
// sock_diag. Any thread.
std::optional<uid_t> PeerUser(int fd);

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_BASE_RPC_PEER_USER_H_
