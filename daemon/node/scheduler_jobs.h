// SchedulerJobs holds the scheduler's own statements about its jobs (BeginJob): the owner of each job, and
// the process that started each step.
//
// A process's environment is only a claim, but these statements are trusted. Every descendant of a step's
// process, and every process in the step's control group, belongs to that step, whatever its environment
// says. A process that claims another user's job is refused. If the scheduler has not reported a job, the
// environment of its processes is believed.
#ifndef LOCKSTEP_DAEMON_NODE_SCHEDULER_JOBS_H_
#define LOCKSTEP_DAEMON_NODE_SCHEDULER_JOBS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/node/identity.h"
#include "daemon/node/process.h"
#include "daemon/node/step_group.h"
#include "lockstep/v1/control.pb.h"

namespace lockstep::daemon {

// A job, or one step of it, on this node.
struct SchedulerStep {
  uint32_t job = 0;  // the scheduler's job number
  uid_t uid = 0;
  std::string name;           // has the format of Identity.job
  std::string scheduler_job;  // has the format of Identity.scheduler_job
  // The name by the step's own number. In a heterogeneous job, `name` uses the first component's number.
  // Slurm gives that number only through the user's environment, so CheckClaim does not protect the name made
  // from it.
  std::string own_name;
  ProcessId starter;  // the step's processes descend from it; pid 0: not known
  StepGroup group;    // of the starter
  int32_t tasks = 0;  // 0: not known
};

// The main thread.
class SchedulerJobs {
 public:
  static constexpr size_t kMost = 4096;

  // `processes` outlives this.
  explicit SchedulerJobs(const ProcessTable& processes) : processes_(processes) {}

  // Returns the name of the job or step. kInvalidArgument: the number is missing or the process does not
  // exist. kResourceExhausted: more than kMost steps. The newest statement decides the owner, because
  // schedulers reuse job numbers.
  absl::StatusOr<std::string> Begin(const v1::BeginJobRequest& request);
  // Removes the job's steps and returns them.
  std::vector<SchedulerStep> End(uint32_t job);
  // Removes the steps whose starting process has ended and returns them.
  std::vector<SchedulerStep> EndStepsOfDeadStarters();
  // Returns true if any step has a known starting process.
  bool HasStarters() const;

  // Corrects `identity` by the scheduler's statements about `process`, which runs as `uid`.
  // kPermissionDenied: the process belongs to, or claims, another user's job, which the error names.
  absl::Status ApplyTo(const ProcessInfo& process, uid_t uid, Identity& identity) const;

 private:
  template <typename Condition>
  std::vector<SchedulerStep> Take(const Condition& condition);
  const SchedulerStep* FindAncestorStep(const ProcessInfo& process) const;
  const SchedulerStep* FindStepByGroup(const ProcessInfo& process) const;
  absl::Status CheckClaim(uid_t uid, const Identity& identity) const;

  const ProcessTable& processes_;
  std::vector<SchedulerStep> steps_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_NODE_SCHEDULER_JOBS_H_
