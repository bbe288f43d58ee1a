// What the node's scheduler itself has said of its jobs (BeginJob): whose they are, and which process started
// which step.
//
// A process's environment is a claim; this is not. What runs below a step's process belongs to that step,
// whatever its environment says, and nobody is let in under the number of a job that is somebody else's. A
// process of a job that the scheduler said nothing of is what it claims to be, as everywhere without a
// scheduler.
#ifndef LOCKSTEP_DAEMON_SCHEDULER_JOBS_H_
#define LOCKSTEP_DAEMON_SCHEDULER_JOBS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/node/identity.h"
#include "daemon/node/process.h"
#include "lockstep/v1/control.pb.h"

namespace lockstep::daemon {

// A job, or one step of it, on this node.
struct SchedulerStep {
  uint32_t job = 0;  // the scheduler's number
  uid_t uid = 0;
  std::string name;           // as Identity.job
  std::string scheduler_job;  // as Identity.scheduler_job
  // By its own number. A component of a heterogeneous job is called by the first one's, which Slurm tells a
  // step's plugins in the user's environment only: nobody else is kept out of that name for it.
  std::string own_name;
  ProcessId starter;  // its processes descend from it; pid 0: not known
  int32_t tasks = 0;  // 0: not known
};

// The main thread.
class SchedulerJobs {
 public:
  static constexpr size_t kMost = 4096;

  // `processes` outlives this.
  explicit SchedulerJobs(const ProcessTable& processes) : processes_(processes) {}

  // What the job or step is called. kInvalidArgument: no number, or no such process; kResourceExhausted
  // beyond kMost. Whose the job is by the newest word counts: numbers come round.
  absl::StatusOr<std::string> Begin(const v1::BeginJobRequest& request);
  // What was known of the job, and is forgotten.
  std::vector<SchedulerStep> End(uint32_t job);
  // The same of the steps whose process has ended.
  std::vector<SchedulerStep> EndOfDeadStarters();
  // Is there a step whose process may end?
  bool HasStarters() const;

  // Sets `identity` right by what is known of `process`, which runs as `uid`. kPermissionDenied names the job
  // that is not its own.
  absl::Status Judge(const ProcessInfo& process, uid_t uid, Identity& identity) const;

 private:
  template <typename Condition>
  std::vector<SchedulerStep> Take(const Condition& condition);
  const SchedulerStep* StepAbove(const ProcessInfo& process) const;
  absl::Status CheckClaim(uid_t uid, const Identity& identity) const;

  const ProcessTable& processes_;
  std::vector<SchedulerStep> steps_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_SCHEDULER_JOBS_H_
