#include "aggregator/notice/hang_examination.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "aggregator/notice/hang_jobs.h"
#include "aggregator/notice/ras_looks.h"
#include "base/rpc/status_macros.h"

namespace lockstep::aggregator {
namespace {

using analysis::HangExplanation;
using Stacks = HangExamination::Stacks;

constexpr size_t kMostStacks = 8;  // of a job

ExplainedJobs Explain(const v1::ProgressReply& now, const v1::ProgressReply* before,
                      const HangExamination& examination) {
  ExplainedJobs explained;
  for (const analysis::HangJob& job : HangJobsOf(now, before)) {
    if (examination.selects && !examination.selects(job)) continue;
    ExplainedJob& to = explained.jobs.emplace_back(
        ExplainedJob{job.job, job.world_size, analysis::ExplainHang(job, examination.after), job.uid});
    for (const analysis::HangRank& rank : job.ranks) to.hosts[rank.rank] = rank.host;
  }
  // Of a host that did not answer the look before, this one cannot show who computed.
  std::set<std::string> silent(now.silent_hosts().begin(), now.silent_hosts().end());
  if (before != nullptr) silent.insert(before->silent_hosts().begin(), before->silent_hosts().end());
  explained.silent_hosts = {silent.begin(), silent.end()};
  return explained;
}

std::vector<v1::StackTarget> LateProcesses(const ExplainedJobs& explained, const v1::ProgressReply& look) {
  std::vector<v1::StackTarget> all;
  for (const ExplainedJob& job : explained.jobs) {
    std::set<RankId> late;
    for (const analysis::HangFinding& finding : job.explanation.findings) {
      late.insert(finding.wait.late.begin(), finding.wait.late.end());
      for (const analysis::HangWait& wait : finding.circle) late.insert(wait.late.begin(), wait.late.end());
    }
    std::vector<v1::StackTarget> targets = StackTargetsOf(look, job.uid, job.job, late);
    if (targets.size() > kMostStacks) targets.resize(kMostStacks);
    all.insert(all.end(), targets.begin(), targets.end());
  }
  return all;
}

bool HasFrames(const v1::ProgressReply& look) {
  return std::any_of(look.nodes().begin(), look.nodes().end(), [](const v1::NodeProgress& node) {
    return std::any_of(
        node.processes().begin(), node.processes().end(),
        [](const v1::ProcessProgress& process) { return !process.stacks().python().frames().empty(); });
  });
}

// `last` becomes the last look.
absl::StatusOr<ExplainedJobs> ExplainProgress(const HangExamination& examination,
                                              std::unique_ptr<v1::ProgressReply>& last) {
  v1::ProgressRequest request;
  request.set_job(examination.job);
  LOCKSTEP_ASSIGN_OR_RETURN(last, examination.look(request));
  ExplainedJobs explained = Explain(*last, nullptr, examination);
  if (!explained.Any(HangExplanation::Verdict::kHang) && !explained.Any(HangExplanation::Verdict::kWaiting))
    return explained;
  if (examination.stacks != Stacks::kNone) {
    for (v1::StackTarget& target : LateProcesses(explained, *last)) *request.add_stacks() = std::move(target);
  }
  examination.sleep(examination.between_looks);
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<v1::ProgressReply> second, examination.look(request));
  explained = Explain(*second, last.get(), examination);
  last = std::move(second);
  const bool native =
      examination.stacks == Stacks::kPythonAndNative && explained.Any(HangExplanation::Verdict::kHang);
  if (request.stacks().empty() || (!native && !HasFrames(*last))) return explained;
  request.set_native_stacks(native);
  examination.sleep(examination.between_looks);
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<v1::ProgressReply> third, examination.look(request));
  explained = Explain(*third, last.get(), examination);
  last = std::move(third);
  return explained;
}

}  // namespace

bool ExplainedJobs::SawNoRank() const {
  return std::all_of(jobs.begin(), jobs.end(), [](const ExplainedJob& job) {
    return job.explanation.ranks_seen == 0 &&
           (!job.ras || job.ras->result == analysis::RasReport::Result::kUnreachable);
  });
}

bool ExplainedJobs::Any(HangExplanation::Verdict verdict) const {
  return std::any_of(jobs.begin(), jobs.end(),
                     [&](const ExplainedJob& job) { return job.explanation.verdict == verdict; });
}

absl::StatusOr<ExplainedJobs> ExplainRunningJobs(const HangExamination& examination) {
  std::unique_ptr<v1::ProgressReply> last;
  LOCKSTEP_ASSIGN_OR_RETURN(ExplainedJobs explained, ExplainProgress(examination, last));
  AddRas(examination, *last, explained);
  return explained;
}

}  // namespace lockstep::aggregator
