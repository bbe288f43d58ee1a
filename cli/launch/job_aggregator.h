// A job's own aggregator, from `lockstep run --with-aggregator` or the user's $LOCKSTEP_AGGREGATOR. This code
// passes its address from the launcher to the daemons on all nodes of the job.
#ifndef LOCKSTEP_CLI_LAUNCH_JOB_AGGREGATOR_H_
#define LOCKSTEP_CLI_LAUNCH_JOB_AGGREGATOR_H_

#include <string>

#include "absl/status/status.h"
#include "cli/common/daemon_socket.h"

namespace lockstep::cli {

inline constexpr char kAggregatorVariable[] = "LOCKSTEP_AGGREGATOR";
inline constexpr char kTokenFileVariable[] = "LOCKSTEP_TOKEN_FILE";
// Names the job if its launcher does not; has the same value on all nodes.
inline constexpr char kLaunchVariable[] = "LOCKSTEP_LAUNCH";

// Sets a variable for this process and the command that it executes, and also as OMPI_<name>. Open MPI passes
// variables with this prefix to its other nodes. Its list of further variables is not used, because Open MPI
// stops if that list and -x are both given.
void SetForAllNodes(const char* name, const std::string& value);
// On those nodes: copies variables that arrived only under the OMPI_ name.
void AdoptFromLauncher();

// One thread, because it reads and changes this process's environment.
class JobAggregator {
 public:
  // Reads this process's variables. If the token cannot be read, prints that on stderr, and this node gets no
  // aggregator.
  static JobAggregator OfEnvironment();

  // Hides the variables while a daemon is started. A launcher's aggregator ends with its job, but the new
  // daemon may live longer. HandTo passes the aggregator to the daemon instead. EndDaemonStart restores the
  // variables.
  void BeginDaemonStart() const;
  void EndDaemonStart() const;
  // kUnavailable: the daemon refused, with its reason.
  absl::Status HandTo(const DaemonPlace& daemon) const;

 private:
  std::string address_;  // empty: none
  std::string token_file_;
  std::string token_;
  bool of_launcher_ = false;
  bool usable_ = false;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_LAUNCH_JOB_AGGREGATOR_H_
