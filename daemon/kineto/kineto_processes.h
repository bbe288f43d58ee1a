// KinetoProcesses keeps the processes that poll for on-demand traces: which of them are ranks, and which are
// still alive.
//
// Only a process that uses a GPU is a rank. Launchers, compilers and loader workers also import PyTorch,
// inherit the environment, and poll. Rank and job come from the environment by the rules for clients
// (identity.h), because the protocol contains neither. A process counts as gone when it ends, or, as in
// dynolog, after 60 s without a poll.
#ifndef LOCKSTEP_DAEMON_KINETO_KINETO_PROCESSES_H_
#define LOCKSTEP_DAEMON_KINETO_KINETO_PROCESSES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/log/log.h"
#include "daemon/kineto/kineto_captures.h"
#include "daemon/kineto/kineto_server.h"
#include "daemon/loop/event_loop.h"
#include "daemon/node/host_access.h"
#include "daemon/node/registry.h"
#include "daemon/node/scheduler_jobs.h"

namespace lockstep::daemon {

// Implemented by: KinetoCapturePath, and tests.
class KinetoEvents {
 public:
  virtual ~KinetoEvents() = default;
  // A process entered the registry or left it.
  virtual void OnKinetoRanksChanged() = 0;
  virtual void OnKinetoPoll(const KinetoPoll& poll) = 0;
  // `why` is continued with "while …". The process may still be registered through its client.
  virtual void OnKinetoGone(const ProcessId& process, const std::string& why) = 0;
};

struct KinetoProcessesSettings {
  Nanos silence = Nanos::Seconds(60);
  Nanos check_every = Nanos::Seconds(1);
};

// The main thread.
class KinetoProcesses {
 public:
  // All references outlive this.
  KinetoProcesses(KinetoProcessesSettings settings, EventLoop& loop, const Clock& clock,
                  const HostAccess& access, const SchedulerJobs& jobs, KinetoServer& server,
                  Registry& registry, KinetoEvents& events, Log& log);
  ~KinetoProcesses();

  void OnPolls(const std::vector<KinetoPoll>& polls);
  // Returns nothing if the process does not poll or is not a rank.
  std::optional<KinetoClient> Find(const ProcessId& process) const;
  // Number of ranks among the processes that poll.
  size_t ranks() const;
  // Returns the processes of `uid` (0: of all users) in `job` (0: any) that `pids` name. A pid names a
  // process by its own pid or an ancestor's, in the daemon's namespace or the process's. Without pids, or
  // with a 0 among them, all match.
  std::vector<KinetoPoll> Match(uid_t uid, int64_t job, const std::vector<int32_t>& pids) const;

 private:
  struct Known {
    KinetoClient client;
    bool rank = false;
    Fd pidfd;
    EventLoop::WatchId death = 0;
  };

  void OnPoll(const KinetoPoll& poll);
  Known& Add(const KinetoPoll& poll);
  void BecomeRank(Known& known);
  void Remove(const ProcessId& process, const std::string& why);
  void CheckSilence();
  bool IsNamed(const KinetoPoll& poll, const std::vector<int32_t>& pids) const;

  const KinetoProcessesSettings settings_;
  EventLoop& loop_;
  const Clock& clock_;
  const HostAccess& access_;
  const SchedulerJobs& jobs_;
  KinetoServer& server_;
  Registry& registry_;
  KinetoEvents& events_;
  Log& log_;
  std::map<ProcessId, Known> known_;
  std::optional<EventLoop::TimerId> check_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_KINETO_KINETO_PROCESSES_H_
