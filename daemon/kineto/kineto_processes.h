// Which of the processes that ask for on-demand traces are ranks, and which are still there.
//
// Only one that uses a GPU is a rank: launchers, compilers and loader workers import PyTorch too, inherit the
// environment, and ask. Rank and job come from its environment by the same rules as a client's (identity.h),
// since the protocol names neither. A process that has not asked for 60 s is gone, as for dynolog, and one
// that has ended is gone at once.
#ifndef LOCKSTEP_DAEMON_KINETO_PROCESSES_H_
#define LOCKSTEP_DAEMON_KINETO_PROCESSES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/log/log.h"
#include "daemon/kineto/kineto_captures.h"
#include "daemon/kineto/kineto_server.h"
#include "daemon/node/event_loop.h"
#include "daemon/node/process_traits.h"
#include "daemon/node/registry.h"
#include "daemon/node/scheduler_jobs.h"

namespace lockstep::daemon {

// Implemented by: Daemon, and tests.
class KinetoEvents {
 public:
  virtual ~KinetoEvents() = default;
  // A process came into the registry or left it.
  virtual void OnKinetoRanksChanged() = 0;
  virtual void OnKinetoPoll(const KinetoPoll& poll) = 0;
  // `why` goes on with "while …". It may still be there by its client.
  virtual void OnKinetoGone(const ProcessId& process, const std::string& why) = 0;
};

struct KinetoProcessesSettings {
  ProcPlaces places;
  Nanos silence = Nanos::Seconds(60);
  Nanos check_every = Nanos::Seconds(1);
};

// The main thread.
class KinetoProcesses {
 public:
  // All references outlive this.
  KinetoProcesses(KinetoProcessesSettings settings, EventLoop& loop, const Clock& clock,
                  const ProcessTable& processes, const SchedulerJobs& jobs, KinetoServer& server,
                  Registry& registry, KinetoEvents& events, Log& log);
  ~KinetoProcesses();

  void OnPolls(const std::vector<KinetoPoll>& polls);
  // Nothing when it does not ask, or is no rank.
  std::optional<KinetoClient> Find(const ProcessId& process) const;
  // Ranks among those that ask.
  size_t ranks() const;
  // Those of a user (0: of everybody) that `pids` name, by their own pid or an ancestor's, in the daemon's
  // namespace or in theirs. No pids, or a 0: all. `job` 0: any.
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
  const ProcessTable& processes_;
  const SchedulerJobs& jobs_;
  KinetoServer& server_;
  Registry& registry_;
  KinetoEvents& events_;
  Log& log_;
  std::map<ProcessId, Known> known_;
  std::optional<EventLoop::TimerId> check_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_KINETO_PROCESSES_H_
