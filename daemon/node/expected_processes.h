// Processes that `lockstep run` told of this daemon: do any live, and who of them uses a GPU and did not
// come?
//
// Told by environment: the daemon's socket stands in it. Launchers drop the environment (env -i, sudo, srun
// --export=NONE, ssh), so these count too: who asked whether the daemon lives, which `lockstep run` does
// before it becomes the command, and its descendants; and a rank by its launcher's variables whom nobody told
// of any daemon. Who of them has CUDA up for a while and is not registered (nor a child of one who is: loader
// workers inherit everything) has lost the client on the way; /proc shows why.
#ifndef LOCKSTEP_DAEMON_TOLD_PROCESSES_H_
#define LOCKSTEP_DAEMON_TOLD_PROCESSES_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "daemon/node/process.h"
#include "daemon/node/process_traits.h"

namespace lockstep::daemon {

// Stateless but for its settings; reads /proc when asked. Any thread.
class ToldProcesses {
 public:
  struct Settings {
    std::string proc = "/proc";
    std::string dev = "/dev";
    std::string socket;                   // the daemon's client socket
    Nanos patience = Nanos::Seconds(10);  // younger processes may still come
    int64_t ticks_per_second = 100;       // of /proc/<pid>/stat
  };
  // What the daemon knows of processes without /proc. Each is asked on the calling thread.
  struct Known {
    std::function<bool(int32_t pid)> registered;          // our client is in it and connected
    std::function<bool(int32_t pid)> by_profiler;         // PyTorch's profiler captures it
    std::function<bool(int32_t pid)> refused;             // its client was, which is shown elsewhere
    std::function<bool(const ProcessId& process)> asked;  // whether this daemon lives
  };
  ToldProcesses(Settings settings, Known known) : settings_(std::move(settings)), known_(std::move(known)) {}

  // A job may load its data for minutes before it first uses a GPU: as long as one of its processes lives,
  // the daemon has work ahead. Lockstep's own programs do not count.
  bool AnyLives(uid_t uid) const;

  // One sentence per process of `uid` (0: of everybody), by pid. Processes that end meanwhile or are hidden
  // from the daemon are passed over.
  std::vector<std::string> Unreached(uid_t uid) const;

 private:
  using Environment = std::map<std::string, std::string, std::less<>>;

  // What ties a process to this daemon, the strongest first.
  enum class Tie { kToldByEnvironment, kBelowOneWhoWasTold, kRankNobodyTold, kNone };
  struct Candidate {
    int32_t pid = 0;
    Tie tie = Tie::kNone;
    int32_t told = 0;  // itself, or the nearest ancestor that was told
    Environment environment;
  };

  // Siblings share their ancestors: each is read once per answer.
  struct Kin {
    int32_t parent = 0;
    bool told = false;
  };
  using Family = std::map<int32_t, Kin>;

  ProcPlaces places() const { return {settings_.proc, settings_.dev}; }
  std::vector<int32_t> Pids(uid_t uid) const;
  Environment EnvironmentOf(int32_t pid) const;
  Candidate Judge(int32_t pid, Family& family) const;
  // Does `path`, as the process sees it, lead to this daemon's socket?
  bool IsOurSocket(int32_t pid, const std::string& path) const;
  bool TellsOfUs(int32_t pid, const Environment& environment) const;
  // Itself or its nearest ancestor that was told or asked, 0 where there is none.
  int32_t NearestTold(int32_t pid, Family& family) const;
  Kin ReadKin(int32_t pid) const;
  bool WithRegisteredAncestor(int32_t pid) const;
  bool OldEnough(int32_t pid) const;
  bool Sees(int32_t pid, const std::string& path) const;
  std::string NameOf(int32_t pid) const;
  std::string Why(const Candidate& candidate, const std::string& maps) const;
  std::string WhyDropped(const Candidate& candidate) const;
  std::string WhyLoadedAndSilent(const Candidate& candidate) const;

  const Settings settings_;
  const Known known_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_TOLD_PROCESSES_H_
