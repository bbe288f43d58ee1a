// UserDrainers drains the processes of each user on a thread of their own, so that a user whose processes
// write without end cannot delay the drain of another user's processes.
//
// A thread ends at the next Begin after its user's last process has left its capture. The main thread calls
// all methods.
#ifndef LOCKSTEP_DAEMON_DRAIN_USER_DRAINERS_H_
#define LOCKSTEP_DAEMON_DRAIN_USER_DRAINERS_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "daemon/clients/daemon_segment.h"
#include "daemon/drain/drainer.h"
#include "daemon/drain/spool.h"
#include "daemon/node/process.h"

namespace lockstep::daemon {

class UserDrainers {
 public:
  // `clock` must outlive this.
  explicit UserDrainers(const Clock& clock) : clock_(clock) {}

  // `uid` is the user of `process`. The other parameters, and the methods below, are as in Drainer.
  uint64_t Begin(uid_t uid, const ProcessId& process, std::shared_ptr<DaemonSegment> segment,
                 uint64_t incarnation, const std::string& capture, std::shared_ptr<Spool> spool);
  void Restart(const ProcessId& process);
  void End(const ProcessId& process, const DrainEnd& end);
  void Abandon(const ProcessId& process);
  // Totals of all users since the daemon started.
  DrainStats stats() const;

 private:
  void RemoveIdle();

  const Clock& clock_;
  DrainStats removed_;  // totals of the drainers that were removed
  std::map<uid_t, std::unique_ptr<Drainer>> drainers_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_DRAIN_USER_DRAINERS_H_
