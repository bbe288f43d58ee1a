// DynoServer answers dynolog's remote calls (`dyno gputrace` and similar). It is off unless `--dyno-port`
// names a port. docs/formats/kineto_ipc.md describes the protocol.
//
// The protocol is dynolog's and has no authentication. The server therefore listens on loopback only, and
// takes the caller's user from the kernel's table of connections. A caller reaches only their own processes;
// root reaches all. The request's text is passed to the processes unchanged.
#ifndef LOCKSTEP_DAEMON_KINETO_DYNO_SERVER_H_
#define LOCKSTEP_DAEMON_KINETO_DYNO_SERVER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"
#include "daemon/loop/event_loop.h"
#include "daemon/node/acceptor.h"

namespace lockstep::daemon {

struct DynoTrigger {
  std::string config;
  int64_t job = 0;            // SLURM_JOB_ID; 0: any
  std::vector<int32_t> pids;  // pids of the processes or their ancestors; empty or 0: all
  int32_t most = 1000;
};
struct DynoTriggered {
  std::vector<int32_t> matched;
  std::vector<int32_t> triggered;  // the request waits for these
  int32_t busy = 0;
};

// Implemented by: DynoOffers, and tests. The main thread.
class DynoHandler {
 public:
  virtual ~DynoHandler() = default;
  virtual DynoTriggered Trigger(uid_t caller, const DynoTrigger& trigger) = 0;
};

// Returns the answer to one call, both in JSON. Has no side effect except through `handler`.
std::string AnswerDyno(const std::string& json, uid_t caller, DynoHandler& handler);

// The main thread.
class DynoServer {
 public:
  DynoServer(EventLoop& loop, DynoHandler& handler, Log& log) : loop_(loop), handler_(handler), log_(log) {}
  ~DynoServer();

  // Listens on 127.0.0.1 and, if the machine has it, ::1. Port 0 chooses a free one.
  absl::Status Start(uint16_t port);
  uint16_t port() const { return port_; }

 private:
  struct Listener {
    Fd fd;
    std::unique_ptr<Acceptor> acceptor;
  };
  struct Connection {
    Fd fd;
    uid_t caller = 0;
    EventLoop::WatchId watch = 0;
    EventLoop::TimerId timer = 0;
    std::string received;
  };
  static constexpr size_t kMostConnections = 64;
  static constexpr size_t kMostOfOneUser = 4;
  static constexpr size_t kLargestCall = 64u << 10;
  static constexpr Nanos kCallTime = Nanos::Seconds(5);

  absl::Status Listen(int family, uint16_t port);
  void Accept(Fd fd);
  // Number of open calls of that user.
  size_t CallsOf(uid_t caller) const;
  void OnReadable(uint64_t id);
  void Close(uint64_t id);

  EventLoop& loop_;
  DynoHandler& handler_;
  Log& log_;
  uint16_t port_ = 0;
  std::vector<Listener> listeners_;
  std::map<uint64_t, Connection> connections_;
  uint64_t next_id_ = 1;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_KINETO_DYNO_SERVER_H_
