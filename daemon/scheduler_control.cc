#include "daemon/scheduler_control.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/rpc/status_macros.h"

namespace lockstep::daemon {

absl::Status SchedulerControl::CheckScheduler(uid_t caller, const char* what) {
  if (caller == 0 || caller == owner_) return absl::OkStatus();
  const std::string why = absl::StrCat("only root and user ", owner_,
                                       " may report jobs to this daemon, and you are user ", caller);
  audit_.Refused(what, LocalCaller(caller), why);
  return absl::PermissionDeniedError(why);
}

absl::StatusOr<v1::BeginJobReply> SchedulerControl::BeginJob(uid_t caller,
                                                             const v1::BeginJobRequest& request) {
  LOCKSTEP_RETURN_IF_ERROR(CheckScheduler(caller, "begin_job"));
  absl::StatusOr<std::string> name = jobs_.Begin(request);
  if (!name.ok()) {
    log_.Warning("job_not_begun", {{"job", request.job()}, {"reason", name.status().message()}});
    return name.status();
  }
  log_.Info("job_begun",
            {{"job", *name}, {"number", request.job()}, {"uid", request.uid()}, {"pid", request.pid()}});
  if (!starters_timer_) WatchStarters();
  v1::BeginJobReply reply;
  reply.set_name(*std::move(name));
  return reply;
}

absl::Status SchedulerControl::EndJob(uid_t caller, const v1::EndJobRequest& request) {
  LOCKSTEP_RETURN_IF_ERROR(CheckScheduler(caller, "end_job"));
  EndSteps(jobs_.End(request.job()));
  return absl::OkStatus();
}

void SchedulerControl::WatchStarters() {
  starters_timer_.reset();
  EndSteps(jobs_.EndStepsOfDeadStarters());
  if (jobs_.HasStarters()) starters_timer_ = loop_.After(kStartersEvery, [this] { WatchStarters(); });
}

void SchedulerControl::EndSteps(const std::vector<SchedulerStep>& steps) {
  for (const SchedulerStep& step : steps) {
    log_.Info("job_ended", {{"job", step.name}, {"uid", step.uid}});
    for (const v1::Rank& rank : registry_.Ranks(RankFilter::Of(step.uid))) {
      if (!rank.job_by_scheduler() || rank.job() != step.name || rank.uid() != step.uid) continue;
      clients_.Disconnect(FromProto(rank.process()), "its step has ended");
    }
  }
}

}  // namespace lockstep::daemon
