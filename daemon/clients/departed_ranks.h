// DepartedRanks remembers the ranks that have recently left this node, with their last operations. `lockstep
// hang` then names a rank that has ended, and says what it did last. `lockstep record dump` reads their
// operation logs.
//
// The main thread.
#ifndef LOCKSTEP_DAEMON_CLIENTS_DEPARTED_RANKS_H_
#define LOCKSTEP_DAEMON_CLIENTS_DEPARTED_RANKS_H_

#include <deque>
#include <string>
#include <vector>

#include "base/clock.h"
#include "daemon/node/registry.h"
#include "lockstep/v1/common.pb.h"
#include "wire/ring/progress_reader.h"

namespace lockstep::daemon {

struct DepartedRank {
  RegisteredProcess process;
  HostTime at;
  std::string why;  // continued with "while …", as "the process ended"
  std::vector<ring::CommunicatorProgress> communicators;
  ring::OperationLog log;  // empty if it was dropped for newer ones
};

class DepartedRanks {
 public:
  // `clock` outlives this.
  explicit DepartedRanks(const Clock& clock) : clock_(clock) {}

  // Ignores a process without a rank. Its earlier entry is replaced.
  void Add(const RegisteredProcess& process, const std::string& why,
           std::vector<ring::CommunicatorProgress> communicators, ring::OperationLog log);
  // The process has registered again.
  void Remove(const ProcessId& process);
  // Returns null if the process is not here. The pointer is valid until the next change.
  const DepartedRank* Find(const ProcessId& process) const;
  // Returns the ranks that `filter` allows and that have a log, with the newest last.
  std::vector<v1::Rank> WithLog(const RankFilter& filter) const;
  // Returns true if a rank has left within the last `time` and its log is here.
  bool HasLogSince(Nanos time) const;
  // Oldest first. It forgets a rank after a day, or once kMost others have left after it.
  const std::deque<DepartedRank>& ranks() const { return ranks_; }

 private:
  static constexpr size_t kMost = 1024;
  static constexpr Nanos kKept = Nanos::Seconds(24 * 3600);
  // Of all logs together: about 50 MB.
  static constexpr size_t kMostLogged = size_t{1} << 18;

  // Drops logs until they fit: always the oldest of the user who has the most operations.
  void DropLogs();

  const Clock& clock_;
  std::deque<DepartedRank> ranks_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CLIENTS_DEPARTED_RANKS_H_
