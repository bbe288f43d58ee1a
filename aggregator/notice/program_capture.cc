#include "aggregator/notice/program_capture.h"

#include "absl/strings/str_cat.h"

namespace lockstep::aggregator {

v1::TraceFinished CaptureByProgram(const JobKey& job, const std::string& because, v1::TraceRequest window,
                                   const RunTrace& trace, AuditLog& audit) {
  v1::TraceRequest& request = window;
  request.set_job(absl::StrCat(job.uid, ":", job.job));
  request.set_via("auto");
  request.set_activities(v1::RECORDED_ACTIVITIES_USUAL);
  AuditCaller who;
  who.by = "program";
  const Caller caller = Caller::OfJob({job.job, job.uid}, {.capture_own = true}).KnownAs(who);
  AuditLog::Call audited = audit.Begin("trace", who,
                                       {{"job", job.job},
                                        {"job_uid", job.uid},
                                        {"because", because},
                                        {"duration_ns", request.duration_ns()},
                                        {"past_ns", request.past_ns()}});
  std::string capture, captured_job;
  int ranks = 0;
  v1::TraceFinished finished = trace(request, caller, [&](const v1::TraceEvent& event) {
    if (!event.has_accepted()) return;
    capture = event.accepted().capture();
    captured_job = event.accepted().job();
    ranks = event.accepted().ranks_size();
  });
  audited.End(OutcomeName(finished.outcome()), finished.text(),
              {{"capture", capture}, {"captured_job", captured_job}, {"captured_ranks", ranks}});
  return finished;
}

}  // namespace lockstep::aggregator
