// Broker is the privileged part of root's daemon. It does for the unprivileged part what only root may do: it
// opens files in /proc, sends to the sockets of PyTorch's processes, and starts processes with a user's
// rights. It reads no records, has no network, and serves one daemon.
#ifndef LOCKSTEP_DAEMON_BROKER_BROKER_H_
#define LOCKSTEP_DAEMON_BROKER_BROKER_H_

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/broker/messages.h"
#include "daemon/node/host_access.h"

namespace lockstep::daemon {

// Names that are in the daemon's settings. A request for anything else is refused.
struct BrokerSettings {
  std::vector<std::string> socket_folders;  // where the daemon listens for PyTorch's processes
  std::vector<std::string> connectable;     // sockets of aggregators
  std::vector<std::string> readable;        // certificates and the token
  std::vector<std::string> appendable;      // logs
  // The sockets that the broker has opened for a daemon without the right to. They outlive the broker.
  std::vector<int> sockets;
};

// One thread.
class Broker {
 public:
  static constexpr size_t kMostProcesses = 256;
  static constexpr size_t kMostProcessesOfOneUser = 16;

  // `access` has the rights of this process and outlives the broker.
  Broker(BrokerSettings settings, const HostAccess& access)
      : settings_(std::move(settings)), access_(access) {}

  // Serves requests at `socket` until the other end closes it.
  void Serve(int socket);
  // Serves one request. Returns false if the other end has closed the socket, or sent an invalid packet.
  bool ServeOne(int socket);

 private:
  // Returns nothing if the call has no reply.
  std::optional<BrokerReply> Answer(const BrokerRequest& request);
  BrokerReply OpenProcFile(const BrokerRequest& request) const;
  BrokerReply Processes() const;
  BrokerReply ConnectToSetting(const BrokerRequest& request) const;
  BrokerReply OpenSetting(const BrokerRequest& request) const;
  BrokerReply SocketOf(const BrokerRequest& request) const;
  BrokerReply StartProcess(const BrokerRequest& request);
  BrokerReply StartStacksReader(const BrokerRequest& request);
  bool HasRoomFor(uid_t uid) const;
  void SendToFile(const BrokerRequest& request) const;
  void ForgetEndedProcesses();

  const BrokerSettings settings_;
  const HostAccess& access_;
  std::map<pid_t, uid_t> processes_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_BROKER_BROKER_H_
