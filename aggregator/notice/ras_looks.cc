#include "aggregator/notice/ras_looks.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "aggregator/notice/hang_jobs.h"
#include "analysis/hang/ras_report.h"
#include "base/log/clean_text.h"
#include "formats/ras/ras.h"

namespace lockstep::aggregator {
namespace {

using analysis::HangExplanation;
using analysis::HangJob;
using analysis::RasReport;
using analysis::RasState;
using JobName = std::pair<uint32_t, std::string>;  // user, job
using Ras = HangExamination::Ras;

constexpr size_t kLongestProblem = 300;

bool HasProgress(const ExplainedJob& job) { return job.explanation.ranks_seen > 0; }

bool WantsRas(const HangExamination& examination, const ExplainedJob& job) {
  if (examination.ras == Ras::kNone) return false;
  if (HasProgress(job)) return job.explanation.verdict == HangExplanation::Verdict::kHang;
  return examination.ras == Ras::kAlsoWithoutProgress;
}

std::set<RankId> LateRanks(const ExplainedJob& job) {
  std::set<RankId> late;
  for (const analysis::HangFinding& finding : job.explanation.findings)
    late.insert(finding.wait.late.begin(), finding.wait.late.end());
  return late;
}

// Returns a living process of the job. A late rank may be stopped, and its node unreachable, so others come
// first.
std::optional<v1::StackTarget> ProcessToAsk(const ExplainedJob& job, const v1::ProgressReply& look) {
  const std::set<RankId> late = LateRanks(job);
  std::set<std::string> late_hosts;
  for (const RankId rank : late) {
    if (const auto host = job.hosts.find(rank); host != job.hosts.end()) late_hosts.insert(host->second);
  }
  std::optional<v1::StackTarget> best;
  std::optional<std::tuple<bool, bool, bool, int32_t>> best_order;
  for (const v1::NodeProgress& node : look.nodes()) {
    for (const v1::ProcessProgress& process : node.processes()) {
      const v1::Rank& rank = process.rank();
      if (process.gone_unix_ns() != 0 || rank.rank() < 0) continue;
      if (rank.uid() != job.uid || rank.job() != job.job) continue;
      const std::string& state = process.state().state();
      const std::tuple<bool, bool, bool, int32_t> order = {state == "T" || state == "t" || state == "Z",
                                                           late_hosts.contains(node.host_name()),
                                                           late.contains(RankId(rank.rank())), rank.rank()};
      if (best_order && *best_order <= order) continue;
      best_order = order;
      best.emplace();
      best->set_node_id(node.node_id());
      *best->mutable_process() = rank.process();
    }
  }
  return best;
}

// True if the answer has the process that was asked. Two jobs of one user on a node listen on one port.
bool IsOfJob(const RasState& state, int32_t pid) {
  const auto is_asked = [pid](const analysis::RasProcess& process) { return process.pid == pid; };
  bool any = false;
  for (const analysis::RasCommunicator& communicator : state.communicators) {
    for (const auto& [number, member] : communicator.members) {
      any = true;
      if (is_asked(member.process)) return true;
    }
  }
  // Of the text's members only some are listed.
  return !any || !state.is_complete;
}

absl::StatusOr<RasState> StateOf(const v1::RasAnswer& answer) {
  if (!answer.problem().empty()) {
    return absl::UnavailableError(
        absl::StrCat(answer.address(), answer.address().empty() ? "" : ": ", answer.problem()));
  }
  absl::StatusOr<RasState> state =
      answer.is_json() ? formats::ParseRasJson(answer.text()) : formats::ParseRasText(answer.text());
  if (state.ok() && !IsOfJob(*state, answer.pid())) {
    return absl::UnavailableError(absl::StrCat(
        answer.address(), ": the RAS of another job answers there; give each job a port in NCCL_RAS_ADDR"));
  }
  return state;
}

using States = std::map<JobName, absl::StatusOr<RasState>>;

States StatesIn(const v1::ProgressReply& look) {
  States states;
  for (const v1::NodeProgress& node : look.nodes()) {
    for (const v1::ProcessProgress& process : node.processes()) {
      if (process.has_ras())
        states.try_emplace({process.rank().uid(), process.rank().job()}, StateOf(process.ras()));
    }
  }
  return states;
}

absl::StatusOr<RasState> StateFor(const States& states, const ExplainedJob& job) {
  const auto found = states.find({job.uid, job.job});
  if (found != states.end()) return found->second;
  return absl::UnavailableError(
      "no daemon asked it: the daemon is of an older release, does not answer, or asked for another job of "
      "its node, which --job prevents");
}

const HangJob* Find(const std::vector<HangJob>& jobs, const ExplainedJob& wanted) {
  const auto found = std::find_if(jobs.begin(), jobs.end(), [&](const HangJob& job) {
    return job.uid == wanted.uid && job.job == wanted.job;
  });
  return found == jobs.end() ? nullptr : &*found;
}

RasReport Unreachable(const absl::Status& status) {
  return analysis::UnreachableRas(CleanText(std::string(status.message()), kLongestProblem));
}

const analysis::HangFinding& FirstHang(const ExplainedJob& job) {
  for (const analysis::HangFinding& finding : job.explanation.findings) {
    if (!finding.may_end) return finding;
  }
  return job.explanation.findings.front();
}

HangExplanation::Verdict VerdictOf(const RasReport& report) {
  if (report.result != RasReport::Result::kStandsStill) return HangExplanation::Verdict::kNoHang;
  return report.may_end ? HangExplanation::Verdict::kWaiting : HangExplanation::Verdict::kHang;
}

// A job that RAS is asked about.
struct AskedJob {
  ExplainedJob* job;
  v1::StackTarget target;
};

std::vector<AskedJob> JobsToAsk(const HangExamination& examination, const v1::ProgressReply& last,
                                ExplainedJobs& explained) {
  std::vector<AskedJob> asked;
  for (ExplainedJob& job : explained.jobs) {
    if (!WantsRas(examination, job)) continue;
    if (std::optional<v1::StackTarget> target = ProcessToAsk(job, last)) {
      asked.push_back({&job, *std::move(target)});
    } else {
      job.ras = analysis::UnreachableRas("no rank of the job lives");
    }
  }
  return asked;
}

// One look at all daemons, with RAS's answers.
struct RasLook {
  absl::StatusOr<std::unique_ptr<v1::ProgressReply>> reply;
  States states;
  std::vector<HangJob> jobs;
};

// `earlier`: see HangJobsOf. It may be null.
RasLook Look(const HangExamination& examination, const std::vector<AskedJob>& asked,
             const v1::ProgressReply* earlier) {
  v1::ProgressRequest request;
  request.set_job(examination.job);
  for (const AskedJob& of_job : asked) *request.add_ras() = of_job.target;
  RasLook look{examination.look(request), {}, {}};
  if (!look.reply.ok()) return look;
  look.states = StatesIn(**look.reply);
  look.jobs = HangJobsOf(**look.reply, earlier);
  return look;
}

struct JobInLook {
  RasState state;
  const HangJob* job;
};

absl::StatusOr<JobInLook> FindJob(const RasLook& look, const ExplainedJob& job) {
  if (!look.reply.ok()) return look.reply.status();
  absl::StatusOr<RasState> state = StateFor(look.states, job);
  if (!state.ok()) return state.status();
  const HangJob* found = Find(look.jobs, job);
  if (found == nullptr) return absl::UnavailableError("the job has ended");
  return JobInLook{*std::move(state), found};
}

}  // namespace

void AddRas(const HangExamination& examination, const v1::ProgressReply& last, ExplainedJobs& explained) {
  const std::vector<AskedJob> asked = JobsToAsk(examination, last, explained);
  if (asked.empty()) return;
  const RasLook first = Look(examination, asked, nullptr);
  std::vector<ExplainedJob*> again;
  for (const AskedJob& of_job : asked) {
    ExplainedJob& job = *of_job.job;
    const absl::StatusOr<JobInLook> seen = FindJob(first, job);
    if (!seen.ok()) {
      job.ras = Unreachable(seen.status());
    } else if (HasProgress(job)) {
      job.ras = analysis::CheckWithRas(FirstHang(job), *seen->job, seen->state);
    } else {
      job.ras = analysis::CompareRasReadings(seen->state, seen->state, *seen->job, Nanos());
      if (job.ras->result == RasReport::Result::kStandsStill) again.push_back(&job);
    }
  }
  // Members of a fast job differ for a moment, so only a second answer shows that nothing moves.
  if (again.empty()) return;
  examination.sleep(examination.after);
  const RasLook second = Look(examination, asked, first.reply->get());
  for (ExplainedJob* job : again) {
    const absl::StatusOr<JobInLook> seen = FindJob(second, *job);
    if (!seen.ok()) {
      job->ras = Unreachable(seen.status());
      continue;
    }
    job->ras = analysis::CompareRasReadings(*StateFor(first.states, *job), seen->state, *seen->job,
                                            examination.after);
    job->explanation.verdict = VerdictOf(*job->ras);
  }
}

}  // namespace lockstep::aggregator
