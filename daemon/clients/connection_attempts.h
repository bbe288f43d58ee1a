// ConnectionAttempts remembers processes that connected to the client socket but did not register. Some only
// probed the socket, as `lockstep run` does before it becomes the user's command under the same pid. Others
// were refused, or have no CUDA context yet. `lockstep status` shows them.
#ifndef LOCKSTEP_DAEMON_CLIENTS_CONNECTION_ATTEMPTS_H_
#define LOCKSTEP_DAEMON_CLIENTS_CONNECTION_ATTEMPTS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/time.h"
#include "daemon/node/process.h"

namespace lockstep::daemon {

// The main thread.
class ConnectionAttempts {
 public:
  // `clock` outlives this.
  explicit ConnectionAttempts(const Clock& clock) : clock_(clock) {}

  // The process connected and disconnected without sending a packet.
  void NoteProbe(const ProcessId& process);
  bool HasProbed(const ProcessId& process) const { return probes_.count(process) > 0; }

  struct Refusal {
    uid_t uid = 0;
    int32_t pid = 0;  // 0: not visible to the daemon
    std::string who;  // the client's name for itself, as far as it sent one
    std::string reason;
  };
  void NoteRefused(Refusal refusal);
  // The process has registered after an earlier refusal.
  void NoteAdmitted(int32_t pid);
  // A refused client retries every 10 s. After 30 s without a retry it no longer counts as refused.
  bool IsRefused(int32_t pid) const;
  // Returns one sentence per refused client of `uid` (0: of all users).
  std::vector<std::string> Refusals(uid_t uid) const;

  // A process with our client, but without a CUDA context.
  struct Present {
    uid_t uid = 0;
    ProcessId process;
    std::string program;
  };
  void NotePresent(Present present) { present_[present.process] = std::move(present); }
  // The process has ended or registered. No effect if it was not present.
  void NoteAbsent(const ProcessId& process) { present_.erase(process); }
  bool IsPresent(int32_t pid) const;
  // Returns "pid 4711 (torchrun)" for each present process of `uid` (0: of all users), sorted by pid. At most
  // kMostShown, then one entry with the number of the others.
  std::vector<std::string> Presences(uid_t uid) const;

 private:
  static constexpr size_t kMostProbes = 4096;
  static constexpr size_t kMostRefused = 64;
  static constexpr size_t kMostShown = 16;

  struct Entry {
    Refusal refusal;
    MonoTime last;
  };
  bool IsCurrent(const Entry& entry) const;

  const Clock& clock_;
  std::set<ProcessId> probes_;
  std::deque<ProcessId> probe_order_;  // oldest first
  std::deque<Entry> refused_;          // the least recent first
  std::map<ProcessId, Present> present_;
  size_t dropped_ = 0;  // number of refusals dropped for lack of room
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CLIENTS_CONNECTION_ATTEMPTS_H_
