// Which job and which rank a process is, out of what its launcher put into its environment. Pure.
//
// The ladder is contract.md's "Who is who": the first convention that names a job names the job, the first
// that names a rank names the rank; they may differ (torchrun under srun: job by Slurm, rank by torchrun).
#ifndef LOCKSTEP_DAEMON_IDENTITY_H_
#define LOCKSTEP_DAEMON_IDENTITY_H_

#include <string>
#include <string_view>

#include "daemon/node/process.h"

namespace lockstep::daemon {

struct IdentityInput {
  // "NAME=value\n" lines of the client's Hello. Whatever is not of that form is passed over.
  std::string_view variables;
  ProcessId self;
  // The process that started it; what names a job where no launcher gave one a name.
  ProcessId launcher;
};

struct Identity {
  std::string job;
  // "LOCKSTEP", "Slurm", "torchrun", "PMIx", "PBS", "LSF", "Flux", "PALS", "MASTER_ADDR", "lockstep run",
  // "launcher", "process"
  std::string job_source;
  // What the scheduler calls the job that the process is in; empty: none. The job's own name may be another:
  // of an array's task, or the launcher's.
  std::string scheduler_job;
  bool job_by_scheduler = false;  // SchedulerJobs knows it, not only the environment
  int32_t rank = 0;
  int32_t world_size = 0;   // 0: not known
  int32_t local_rank = -1;  // -1: not known
  // "LOCKSTEP", "torchrun", "OMPI", "PMIx", "Slurm", "PMI", "Flux", "PALS", "JSM", "MVAPICH", "ALPS",
  // "Horovod", "single"
  std::string rank_source;
};

// Slurm's numbers as text; what is not there is empty.
struct SlurmNumbers {
  std::string job, array_job, array_task, step;
};
// "JOB", "JOB.STEP", "ARRAY_TASK" or "ARRAY_TASK.STEP"; one rule for what the environment says and what Slurm
// itself says.
std::string SlurmJobName(const SlurmNumbers& numbers);

// The job's name is at most 128 characters of valid UTF-8 without control characters.
Identity Identify(const IdentityInput& input);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_IDENTITY_H_
