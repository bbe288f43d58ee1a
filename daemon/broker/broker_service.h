#ifndef LOCKSTEP_DAEMON_BROKER_BROKER_SERVICE_H_
#define LOCKSTEP_DAEMON_BROKER_BROKER_SERVICE_H_

#include <sys/types.h>

#include <functional>

#include "base/fd.h"
#include "base/log/log.h"
#include "base/time.h"
#include "daemon/broker/broker.h"
#include "daemon/node/socket.h"

namespace lockstep::daemon {

// Serves daemons that run as services of their own, one after the other. One thread.
class BrokerService {
 public:
  // Accepts connections of processes of `user` only. All references outlive this.
  BrokerService(ListeningSocket socket, uid_t user, Broker& broker, Log& log)
      : socket_(std::move(socket)), user_(user), broker_(broker), log_(log) {}

  // Serves until `stop` is readable. It calls `alive` at least once per `period`.
  void Run(int stop, Nanos period, const std::function<void()>& alive);

 private:
  // Returns the connection of a daemon, or none if the caller may not be one.
  Fd Accept() const;

  const ListeningSocket socket_;
  const uid_t user_;
  Broker& broker_;
  Log& log_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_BROKER_BROKER_SERVICE_H_
