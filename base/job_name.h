// Decides which jobs a `--job` option selects. It accepts a job's own name, the number of the scheduler's job
// around it, and for Slurm also the shorter names that Slurm's commands accept.
#ifndef LOCKSTEP_BASE_JOB_NAME_H_
#define LOCKSTEP_BASE_JOB_NAME_H_

#include <string_view>

namespace lockstep {

inline constexpr char kSlurmSource[] = "Slurm";

struct JobNames {
  std::string_view name;    // for Slurm "JOB", "JOB.STEP", "ARRAY_TASK" or "ARRAY_TASK.STEP"
  std::string_view source;  // who gave the name; only a name from kSlurmSource is split into parts
  // For an array task of Slurm, its number in SLURM_JOB_ID. For a job that Slurm has not named, the id of the
  // surrounding PBS, LSF or Flux job. A PBS id also matches without the server's name. It may be empty.
  std::string_view scheduler_job;
};

// A job's name selects all its steps, an array's name all its tasks. It is a pure function.
inline bool SelectsJob(std::string_view wanted, const JobNames& job) {
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

#endif  // LOCKSTEP_BASE_JOB_NAME_H_
