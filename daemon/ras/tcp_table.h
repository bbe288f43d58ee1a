// The kernel's table of TCP sockets (/proc/net/tcp), which names the user of each. A TCP connection, unlike a
// Unix socket, does not show its peer's user.
#ifndef LOCKSTEP_DAEMON_RAS_TCP_TABLE_H_
#define LOCKSTEP_DAEMON_RAS_TCP_TABLE_H_

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/ras/ras_place.h"

namespace lockstep::daemon {

class TcpTable {
 public:
  // Parses the file's text. Other lines are skipped.
  static TcpTable Parse(std::string_view text);

  // Returns the users of the sockets that a connection to the address may reach, each once.
  std::vector<uid_t> ListenersOn(const Loopback& address) const;
  // Returns the user of the other end of a connection to the address. `own_port`: that of our end.
  std::optional<uid_t> UserOfPeer(const Loopback& address, uint16_t own_port) const;

 private:
  struct Socket {
    std::string local, remote, state;  // as the kernel writes them
    uid_t uid = 0;
  };
  std::vector<Socket> sockets_;
};

// Returns the table of this process's network, of one family. Tests replace it.
using TcpTableReader = std::function<TcpTable(Loopback::Family)>;
TcpTable ReadTcpTable(Loopback::Family family);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_RAS_TCP_TABLE_H_
