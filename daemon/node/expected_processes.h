// Finds processes that `lockstep run` started with this daemon's address: which are alive, and which use a
// GPU but never registered.
//
// A process is expected if its environment names the daemon's socket. Launchers may drop the environment (env
// -i, sudo, srun --export=NONE, ssh), so two more kinds count:
//   - processes that probed the daemon's socket (as `lockstep run` does), and their descendants;
//   - processes with a launcher's rank variable but without any daemon's address.
//
// An expected process is unreached if CUDA has been initialised in it for a while and it is not registered.
// Children of registered processes do not count, because loader workers inherit everything. /proc then shows
// the reason.
#ifndef LOCKSTEP_DAEMON_NODE_EXPECTED_PROCESSES_H_
#define LOCKSTEP_DAEMON_NODE_EXPECTED_PROCESSES_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "daemon/node/host_access.h"
#include "daemon/node/process.h"
#include "daemon/node/process_traits.h"

namespace lockstep::daemon {

// Has no state except its settings, and reads /proc at each call. Any thread.
class ExpectedProcesses {
 public:
  struct Settings {
    std::string socket;  // the daemon's client socket
    // Returns device and inode of that socket; nothing while it is not open.
    std::function<std::optional<std::pair<dev_t, ino_t>>()> socket_file = [] { return std::nullopt; };
    std::string uptime = "/proc/uptime";
    Nanos min_age = Nanos::Seconds(10);  // younger processes may still register
    int64_t ticks_per_second = 100;      // unit of the start time in /proc/<pid>/stat
  };
  // Facts about processes that the daemon knows without /proc. The functions are called on the calling
  // thread.
  struct Known {
    std::function<bool(int32_t pid)> registered;   // our client in it is connected
    std::function<bool(int32_t pid)> by_profiler;  // PyTorch's profiler captures it
    // The daemon reports it elsewhere: its client was refused, or it has no CUDA context.
    std::function<bool(int32_t pid)> reported;
    std::function<bool(const ProcessId& process)> probed;  // it probed the client socket
  };
  // `access` outlives it.
  ExpectedProcesses(Settings settings, const HostAccess& access, Known known)
      : settings_(std::move(settings)), access_(access), known_(std::move(known)) {}

  // Returns true if an expected process of `uid` is alive. A job may load its data for minutes before it
  // first uses a GPU, so the daemon must not exit meanwhile. Lockstep's own programs do not count.
  bool AnyAlive(uid_t uid) const;

  // Returns one sentence per unreached process of `uid` (0: of all users), sorted by pid. Processes that end
  // meanwhile or that the daemon may not read are skipped.
  std::vector<std::string> Unreached(uid_t uid) const;

 private:
  using Environment = std::map<std::string, std::string, std::less<>>;

  // The relation of a process to this daemon, strongest first.
  enum class Tie { kByEnvironment, kBelowExpected, kRankWithoutAddress, kNone };
  struct Candidate {
    int32_t pid = 0;
    Tie tie = Tie::kNone;
    int32_t expected_pid = 0;  // pid of itself or of its nearest expected ancestor; 0: none
    Environment environment;
  };

  // Cached data of ancestors: siblings share them, so each is read once per call of Unreached.
  struct Ancestor {
    int32_t parent = 0;
    bool expected = false;  // has this daemon's address, or probed its socket
  };
  using AncestorCache = std::map<int32_t, Ancestor>;

  std::vector<int32_t> Pids(uid_t uid) const;
  Environment EnvironmentOf(int32_t pid) const;
  Candidate Classify(int32_t pid, AncestorCache& ancestors) const;
  // Returns true if `path`, as the process sees it, leads to this daemon's socket.
  bool IsOurSocket(int32_t pid, const std::string& path) const;
  bool NamesOurSocket(int32_t pid, const Environment& environment) const;
  // Returns the pid of the process itself or of its nearest ancestor that has this daemon's address or probed
  // its socket; 0 if there is none.
  int32_t NearestExpected(int32_t pid, AncestorCache& ancestors) const;
  Ancestor ReadAncestor(int32_t pid) const;
  bool WithRegisteredAncestor(int32_t pid) const;
  bool OldEnough(int32_t pid) const;
  bool CanSee(int32_t pid, const std::string& path) const;
  std::string NameOf(int32_t pid) const;
  std::string Reason(const Candidate& candidate, const std::string& maps) const;
  std::string ReasonEnvironmentDropped(const Candidate& candidate) const;
  std::string ReasonNotConnected(const Candidate& candidate) const;

  const Settings settings_;
  const HostAccess& access_;
  const Known known_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_NODE_EXPECTED_PROCESSES_H_
