// Derives a process's job and rank from the environment variables that its launcher set. Pure functions.
//
// The first convention that names a job decides the job, and the first that names a rank decides the rank.
// The two may differ: for torchrun under srun, Slurm names the job and torchrun names the rank.
#ifndef LOCKSTEP_DAEMON_NODE_IDENTITY_H_
#define LOCKSTEP_DAEMON_NODE_IDENTITY_H_

#include <string>
#include <string_view>

#include "daemon/node/process.h"

namespace lockstep::daemon {

struct IdentityInput {
  // "NAME=value\n" lines of the client's Hello. Lines of another form are ignored.
  std::string_view variables;
  ProcessId self;
  // The process that started it. It names the job if no launcher did.
  ProcessId launcher;
};

struct Identity {
  std::string job;
  // One of "LOCKSTEP", "Slurm", "torchrun", "PMIx", "PBS", "LSF", "Flux", "PALS", "MASTER_ADDR", "lockstep
  // run", "launcher", "process".
  std::string job_source;
  // The scheduler's own name of the job; empty: no scheduler. The job's own name may differ, for a task of an
  // array or if the launcher named the job.
  std::string scheduler_job;
  bool job_by_scheduler = false;  // confirmed by SchedulerJobs, not only by the environment
  int32_t rank = 0;
  int32_t world_size = 0;   // 0: not known
  int32_t local_rank = -1;  // -1: not known
  // One of "LOCKSTEP", "torchrun", "OMPI", "PMIx", "Slurm", "PMI", "Flux", "PALS", "JSM", "MVAPICH", "ALPS",
  // "Horovod", "single".
  std::string rank_source;
};

// Slurm's numbers as text; a missing number is empty.
struct SlurmNumbers {
  std::string job, array_job, array_task, step;
};
// Returns "JOB", "JOB.STEP", "ARRAY_TASK" or "ARRAY_TASK.STEP". The environment and Slurm's own messages
// share this rule.
std::string SlurmJobName(const SlurmNumbers& numbers);

// The job's name has at most 128 characters of valid UTF-8 without control characters.
Identity Identify(const IdentityInput& input);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_NODE_IDENTITY_H_
