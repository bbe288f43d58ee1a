// Who came to the client socket and did not stay: `lockstep run`, which looks whether a daemon lives and then
// becomes the user's command under the same pid, and clients that were refused. `lockstep status` tells of
// both when a rank is missing.
#ifndef LOCKSTEP_DAEMON_CLIENT_VISITS_H_
#define LOCKSTEP_DAEMON_CLIENT_VISITS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/time.h"
#include "daemon/node/process.h"

namespace lockstep::daemon {

// The main thread.
class ClientVisits {
 public:
  // `clock` outlives this.
  explicit ClientVisits(const Clock& clock) : clock_(clock) {}

  // It connected and left without a word.
  void Asked(const ProcessId& process);
  bool HasAsked(const ProcessId& process) const { return asked_.count(process) > 0; }

  struct Refusal {
    uid_t uid = 0;
    int32_t pid = 0;  // 0: the daemon cannot see it
    std::string who;  // as far as it got to say
    std::string reason;
  };
  void Refused(Refusal refusal);
  // It has been let in after all.
  void Admitted(int32_t pid);
  // A refused client asks again every 10 s. Who has not for three times as long has ended, or found a daemon.
  bool IsRefused(int32_t pid) const;
  // One sentence per client of `uid` (0: of everybody).
  std::vector<std::string> Refusals(uid_t uid) const;

 private:
  static constexpr size_t kMostAsked = 4096;
  static constexpr size_t kMostRefused = 64;

  struct Entry {
    Refusal refusal;
    MonoTime last;
  };
  bool IsCurrent(const Entry& entry) const;

  const Clock& clock_;
  std::set<ProcessId> asked_;
  std::deque<ProcessId> asked_order_;  // oldest first
  std::deque<Entry> refused_;          // longest silent first
  size_t forgotten_ = 0;               // refusals that had no place
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CLIENT_VISITS_H_
