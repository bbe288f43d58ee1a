// Processes that `lockstep run` told of this daemon by environment: do any live, and who of them uses a GPU and did not come?
//
// Who has the daemon's socket in its environment, has CUDA up for a while and is not registered (nor a child of one who is: loader
// workers inherit both) has lost the client on the way; /proc shows why.
#ifndef LOCKSTEP_DAEMON_TOLD_PROCESSES_H_
#define LOCKSTEP_DAEMON_TOLD_PROCESSES_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/time.h"

namespace lockstep::daemon {

// Stateless but for its settings; reads /proc when asked. Any thread.
class ToldProcesses {
 public:
  struct Settings {
    std::string proc = "/proc";
    std::string dev = "/dev";
    std::string socket;                        // the daemon's client socket
    Nanos patience = Nanos::Seconds(10);       // younger processes may still come
    int64_t ticks_per_second = 100;            // of /proc/<pid>/stat
  };
  explicit ToldProcesses(Settings settings) : settings_(std::move(settings)) {}

  // A job may load its data for minutes before it first uses a GPU: as long as one of its processes lives, the daemon has work
  // ahead. Lockstep's own programs do not count.
  bool AnyLives(uid_t uid) const;

  // One sentence per process of `uid` (0: of everybody), by pid. `registered` tells whether a pid is connected. Processes that
  // end meanwhile or are hidden from the daemon are passed over.
  std::vector<std::string> Unreached(uid_t uid, const std::function<bool(int32_t pid)>& registered) const;

 private:
  using Environment = std::map<std::string, std::string, std::less<>>;

  std::string Read(int32_t pid, const char* name) const;
  std::vector<int32_t> Pids(uid_t uid) const;
  Environment EnvironmentOf(int32_t pid) const;
  bool WasTold(const Environment& environment) const;
  bool WithRegisteredAncestor(int32_t pid, const std::function<bool(int32_t)>& registered) const;
  bool OldEnough(int32_t pid) const;
  // Is `path` there in the file system that the process sees?
  bool Sees(int32_t pid, const std::string& path) const;
  std::string Why(int32_t pid, const Environment& environment, const std::string& maps) const;

  const Settings settings_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_TOLD_PROCESSES_H_
