// StepGroup is the control group (cgroups(7)) in which Slurm holds all processes of a job or step on this
// node. A process leaves it only if root moves it, so it also holds processes that are not descendants of
// slurmstepd, such as daemons of the job.
#ifndef LOCKSTEP_DAEMON_NODE_STEP_GROUP_H_
#define LOCKSTEP_DAEMON_NODE_STEP_GROUP_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::daemon {

class StepGroup {
 public:
  StepGroup() = default;  // empty
  // Finds the group of the job's step in the lines of /proc/<pid>/cgroup of its slurmstepd: its path up to
  // job_<job>, and step_<…> if that follows. The result is empty without Slurm's cgroup plugin.
  static StepGroup Of(std::string_view lines, uint32_t job);

  bool empty() const { return prefix_.empty(); }
  // Returns whether a process with these lines is in the group.
  bool Holds(std::string_view lines) const;

 private:
  // The beginning of a line: hierarchy, controllers, and the path.
  std::string prefix_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_NODE_STEP_GROUP_H_
