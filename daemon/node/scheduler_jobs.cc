#include "daemon/node/scheduler_jobs.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/job_name.h"

namespace lockstep::daemon {
namespace {

constexpr int kMostAncestors = 64;

std::string NameOf(const v1::BeginJobRequest& request, const std::string& number) {
  SlurmNumbers numbers;
  numbers.job = number;
  if (request.array_job() != 0 && request.has_array_task()) {
    numbers.array_job = absl::StrCat(request.array_job());
    numbers.array_task = absl::StrCat(request.array_task());
  }
  if (request.has_step()) numbers.step = absl::StrCat(request.step());
  return SlurmJobName(numbers);
}

}  // namespace

absl::StatusOr<std::string> SchedulerJobs::Begin(const v1::BeginJobRequest& request) {
  if (request.job() == 0) return absl::InvalidArgumentError("the job's number is missing");
  SchedulerStep step;
  step.job = request.job();
  step.uid = request.uid();
  step.scheduler_job = absl::StrCat(request.het_leader() != 0 ? request.het_leader() : request.job());
  step.name = NameOf(request, step.scheduler_job);
  step.own_name = NameOf(request, absl::StrCat(request.job()));
  step.tasks = std::max(request.tasks(), 0);
  if (request.pid() != 0) {
    const std::optional<ProcessInfo> starter = processes_.Find(request.pid());
    if (!starter || starter->ended) {
      return absl::InvalidArgumentError(absl::StrCat("the daemon sees no process ", request.pid(),
                                                     ": it must be in the daemon's pid namespace"));
    }
    step.starter = starter->id;
    step.group = StepGroup::Of(processes_.ControlGroups(request.pid()), request.job());
  }
  // A job also has processes of Slurm on a node that are not steps: one of its batch script, and one that
  // waits beside all steps.
  Take([&](const SchedulerStep& old) {
    return old.job == step.job &&
           (old.uid != step.uid || (old.name == step.name && old.starter == step.starter));
  });
  if (steps_.size() >= kMost)
    return absl::ResourceExhaustedError(absl::StrCat("the daemon keeps at most ", kMost, " steps"));
  steps_.push_back(std::move(step));
  return steps_.back().name;
}

template <typename Condition>
std::vector<SchedulerStep> SchedulerJobs::Take(const Condition& condition) {
  const auto first = std::stable_partition(steps_.begin(), steps_.end(),
                                           [&](const SchedulerStep& s) { return !condition(s); });
  std::vector<SchedulerStep> taken(std::make_move_iterator(first), std::make_move_iterator(steps_.end()));
  steps_.erase(first, steps_.end());
  return taken;
}

std::vector<SchedulerStep> SchedulerJobs::End(uint32_t job) {
  return Take([&](const SchedulerStep& step) { return step.job == job; });
}

std::vector<SchedulerStep> SchedulerJobs::EndStepsOfDeadStarters() {
  return Take([&](const SchedulerStep& step) {
    if (step.starter.pid == 0) return false;
    const std::optional<ProcessInfo> now = processes_.Find(step.starter.pid);
    return !now || now->id != step.starter || now->ended;
  });
}

bool SchedulerJobs::HasStarters() const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [](const SchedulerStep& step) { return step.starter.pid != 0; });
}

const SchedulerStep* SchedulerJobs::FindAncestorStep(const ProcessInfo& process) const {
  if (!HasStarters()) return nullptr;
  std::optional<ProcessInfo> ancestor = process;
  for (int i = 0; i < kMostAncestors && ancestor; ++i) {
    for (const SchedulerStep& step : steps_) {
      if (step.starter.pid != 0 && step.starter == ancestor->id) return &step;
    }
    if (ancestor->parent_pid <= 1) break;
    ancestor = processes_.Find(ancestor->parent_pid);
  }
  return nullptr;
}

const SchedulerStep* SchedulerJobs::FindStepByGroup(const ProcessInfo& process) const {
  const bool any = std::any_of(steps_.begin(), steps_.end(),
                               [](const SchedulerStep& step) { return !step.group.empty(); });
  if (!any) return nullptr;
  const std::string groups = processes_.ControlGroups(process.id.pid);
  const auto found = std::find_if(steps_.begin(), steps_.end(),
                                  [&](const SchedulerStep& step) { return step.group.Holds(groups); });
  return found == steps_.end() ? nullptr : &*found;
}

absl::Status SchedulerJobs::CheckClaim(uid_t uid, const Identity& identity) const {
  for (const SchedulerStep& step : steps_) {
    if (step.uid == uid) continue;
    const std::string number = absl::StrCat(step.job);
    const bool claimed = SelectsJob(identity.job, {step.own_name, kSlurmSource, number}) ||
                         identity.scheduler_job == number ||
                         SelectsJob(step.own_name, {identity.job, kSlurmSource, identity.scheduler_job});
    if (!claimed) continue;
    return absl::PermissionDeniedError(absl::StrCat("it claims job ", identity.job, ", which is user ",
                                                    step.uid, "'s according to Slurm, but runs as user ", uid,
                                                    ": unset LOCKSTEP_JOB and Slurm's variables"));
  }
  return absl::OkStatus();
}

absl::Status SchedulerJobs::ApplyTo(const ProcessInfo& process, uid_t uid, Identity& identity) const {
  const SchedulerStep* step = FindAncestorStep(process);
  if (step == nullptr) step = FindStepByGroup(process);
  if (step != nullptr && step->uid != uid) {
    return absl::PermissionDeniedError(absl::StrCat("it runs in Slurm's job ", step->name, ", which is user ",
                                                    step->uid, "'s, as user ", uid,
                                                    ": only processes of the job's user are captured"));
  }
  // A name that the user chose stays, unless it names another user's job.
  if (step != nullptr && identity.job_source != "LOCKSTEP") {
    identity.job = step->name;
    identity.job_source = kSlurmSource;
  }
  if (step != nullptr) {
    identity.scheduler_job = step->scheduler_job;
    identity.job_by_scheduler = true;
    if (identity.rank_source == kSlurmSource && identity.world_size == 0 && step->tasks > identity.rank)
      identity.world_size = step->tasks;
  }
  return CheckClaim(uid, identity);
}

}  // namespace lockstep::daemon
