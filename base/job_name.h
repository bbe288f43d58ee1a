// Which jobs `--job` means: a job's own name, the number of the scheduler's job that it runs in, and for
// Slurm's jobs the shorter names that Slurm's commands take.
#ifndef LOCKSTEP_COMMON_BASE_JOB_NAME_H_
#define LOCKSTEP_COMMON_BASE_JOB_NAME_H_

#include <string_view>

namespace lockstep {

inline constexpr char kSlurmSource[] = "Slurm";

struct JobNames {
  std::string_view name;    // of Slurm "JOB", "JOB.STEP", "ARRAY_TASK" or "ARRAY_TASK.STEP"
  std::string_view source;  // who named it; only where that is kSlurmSource the name is taken apart
  // Slurm's own number of an array's task, which is in SLURM_JOB_ID there; of a job that Slurm has not named,
  // what PBS, LSF or Flux calls the job that it runs in, of PBS also without the server's name. May be empty.
  std::string_view scheduler_job;
};

// A job means all its steps, an array all its tasks. Pure.
inline bool MeansJob(std::string_view wanted, const JobNames& job) {
  if (wanted == job.name) return true;
  if (wanted.empty()) return false;
  if (job.source != kSlurmSource)
    return wanted == job.scheduler_job || wanted == job.scheduler_job.substr(0, job.scheduler_job.find('.'));
  const std::string_view whole = job.name.substr(0, job.name.find('.'));
  const std::string_view step = job.name.substr(whole.size());
  if (wanted == whole || wanted == whole.substr(0, whole.find('_'))) return true;
  const std::string_view number = job.scheduler_job;
  return !number.empty() && wanted.substr(0, number.size()) == number &&
         (wanted.size() == number.size() || wanted.substr(number.size()) == step);
}

}  // namespace lockstep

#endif  // LOCKSTEP_COMMON_BASE_JOB_NAME_H_
