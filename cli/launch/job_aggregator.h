// The aggregator that a job brings along (`lockstep run --with-aggregator`, or $LOCKSTEP_AGGREGATOR set by
// its user): how it gets from the launcher to the daemons of all the job's nodes.
#ifndef LOCKSTEP_CLI_JOB_AGGREGATOR_H_
#define LOCKSTEP_CLI_JOB_AGGREGATOR_H_

#include <string>

#include "absl/status/status.h"
#include "cli/common/daemon_socket.h"

namespace lockstep::cli {

inline constexpr char kAggregatorVariable[] = "LOCKSTEP_AGGREGATOR";
inline constexpr char kTokenFileVariable[] = "LOCKSTEP_TOKEN_FILE";
// Names the job where its launcher does not, the same on all nodes.
inline constexpr char kLaunchVariable[] = "LOCKSTEP_LAUNCH";

// Sets a variable for this process and what it becomes, once more as OMPI_<name>: Open MPI hands what begins
// so to its other nodes, and ends where -x is used beside its list of further variables, so that list is not
// ours to set.
void SetForAllNodes(const char* name, const std::string& value);
// On those nodes: what has arrived under the other name only.
void AdoptFromLauncher();

// One thread, since it is about this process's environment.
class JobAggregator {
 public:
  // Of this process's variables. Where the token cannot be read, which is said on stderr, there is none for
  // this node.
  static JobAggregator OfEnvironment();

  // A launcher's aggregator ends with its job, and the daemon that is about to be started may outlive that:
  // it is to be handed over and not inherited. Undone by EndDaemonStart.
  void BeginDaemonStart() const;
  void EndDaemonStart() const;
  // kUnavailable with the daemon's reason.
  absl::Status HandTo(const DaemonPlace& daemon) const;

 private:
  std::string address_;  // empty: none
  std::string token_file_;
  std::string token_;
  bool of_launcher_ = false;
  bool usable_ = false;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_JOB_AGGREGATOR_H_
