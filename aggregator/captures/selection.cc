#include "aggregator/captures/selection.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/job_name.h"
#include "base/number_runs.h"

namespace lockstep::ingest {
namespace {

using JobKey = std::pair<std::string, uint32_t>;

JobKey KeyOf(const SeenRank& seen) { return {seen.rank.job(), seen.rank.uid()}; }

std::map<JobKey, std::vector<int32_t>> Jobs(const std::vector<SeenRank>& seen) {
  std::map<JobKey, std::vector<int32_t>> jobs;
  for (const SeenRank& s : seen) jobs[KeyOf(s)].push_back(s.rank.rank());
  return jobs;
}

std::string Describe(const std::string& name, const std::vector<int32_t>& ranks) {
  return absl::StrCat(name, " (", ranks.size() == 1 ? "rank " : "ranks ", RankList(ranks), ")");
}

// "job-a (ranks 0-3), job-b (rank 0)".
std::string DescribeJobs(const std::vector<SeenRank>& seen) {
  const auto jobs = Jobs(seen);
  std::map<std::string, int> same_name;
  for (const auto& [job, ranks] : jobs) ++same_name[job.first];
  return absl::StrJoin(jobs, ", ", [&](std::string* out, const auto& job) {
    const auto& [name, uid] = job.first;
    *out += Describe(same_name[name] > 1 ? absl::StrCat(uid, ":", name) : name, job.second);
  });
}

std::string NothingSeen(size_t daemons) {
  if (daemons == 0) {
    return "no daemon is connected: start one with `lockstepd`, or the job with `lockstep run -- COMMAND`, "
           "and try again";
  }
  return absl::StrCat(
      daemons == 1 ? "a daemon is" : absl::StrCat(daemons, " daemons are"),
      " connected and no GPU process has registered there: start the job with `lockstep run -- COMMAND`, or "
      "wait until it has initialised CUDA; `lockstep status` shows what is seen");
}

bool NamesExactly(const std::string& wanted, const SeenRank& seen) {
  return wanted == seen.rank.job() || wanted == absl::StrCat(seen.rank.uid(), ":", seen.rank.job());
}

bool Means(const std::string& wanted, const SeenRank& seen) {
  const v1::Rank& rank = seen.rank;
  const JobNames names = {rank.job(), rank.job_source(), rank.scheduler_job()};
  const std::string owner = absl::StrCat(rank.uid(), ":");
  return MeansJob(wanted, names) ||
         (absl::StartsWith(wanted, owner) && MeansJob(std::string_view(wanted).substr(owner.size()), names));
}

// A batch script's own processes are called by the job, its steps by the job and a number: who names the
// first means it.
void KeepNamed(const std::string& wanted, std::vector<SeenRank>& ranks) {
  const bool exact =
      std::any_of(ranks.begin(), ranks.end(), [&](const SeenRank& s) { return NamesExactly(wanted, s); });
  // Whole jobs: what ssh started on other nodes knows its launcher's name for the job, not the scheduler's.
  std::set<JobKey> meant;
  for (const SeenRank& s : ranks) {
    if (exact ? NamesExactly(wanted, s) : Means(wanted, s)) meant.insert(KeyOf(s));
  }
  std::erase_if(ranks, [&](const SeenRank& s) { return !meant.contains(KeyOf(s)); });
}

// Leaves what the request's job, pids or `all` choose; a sentence where that is not one job's ranks.
std::string ChooseJob(const v1::TraceRequest& request, std::vector<SeenRank>& ranks) {
  const std::string found = DescribeJobs(ranks);
  if (!request.job().empty()) {
    KeepNamed(request.job(), ranks);
    if (ranks.empty()) {
      return absl::StrCat("no job is named ", request.job(), "; there ",
                          found.find(", ") == std::string::npos ? "is " : "are ", found,
                          ": name one with --job");
    }
  } else if (request.pids_size() > 0) {
    const std::set<int32_t> wanted(request.pids().begin(), request.pids().end());
    std::erase_if(ranks, [&](const SeenRank& s) { return !wanted.contains(s.rank.process().pid()); });
    std::set<int32_t> unknown = wanted;
    for (const SeenRank& s : ranks) unknown.erase(s.rank.process().pid());
    if (!unknown.empty()) {
      return absl::StrCat("no GPU process with pid ", absl::StrJoin(unknown, ", "), " has registered; seen ",
                          found, ": `lockstep status` lists their pids");
    }
  }
  if (Jobs(ranks).size() > 1) {
    return absl::StrCat("that chooses ranks of several jobs, and one capture holds one job; there are ",
                        DescribeJobs(ranks), ": name one with --job");
  }
  return "";
}

// A sentence where the caller asks for what only somebody else has.
std::string AnothersJob(const v1::TraceRequest& request, const Caller& caller,
                        const std::vector<SeenRank>& own, const std::vector<SeenRank>& all) {
  const std::set<int32_t> pids(request.pids().begin(), request.pids().end());
  const auto asked = [&](const SeenRank& s) {
    return Means(request.job(), s) || pids.contains(s.rank.process().pid());
  };
  if ((request.job().empty() && pids.empty()) || std::any_of(own.begin(), own.end(), asked)) return "";
  const auto found = std::find_if(all.begin(), all.end(), asked);
  if (found == all.end()) return "";
  return absl::StrCat("job ", found->rank.job(), " is user ", found->rank.uid(), "'s, and you are user ",
                      caller.uid(), ": only its user, root and who holds the aggregator's token capture it");
}

}  // namespace

ChosenPath ChoosePath(const v1::TraceRequest& request, const v1::Rank& rank) {
  ChosenPath path;
  const bool client = rank.via() != "kineto";
  const bool framework = request.framework() != 0;
  if (request.via() == "kineto" || (request.via() != "cupti" && (!client || (framework && rank.kineto())))) {
    path.kineto = true;
    if (!rank.kineto()) {
      path.refused =
          "it does not ask for PyTorch's on-demand traces: start it with KINETO_USE_DAEMON=1 (lockstep run "
          "sets it)";
    }
    return path;
  }
  path.kineto_if_held = request.via() != "cupti" && client && rank.kineto();
  if (!client)
    path.refused =
        "Lockstep's client is not loaded in it: --via kineto reaches it, or start it with lockstep run";
  if (client && framework) {
    path.refused =
        "what was asked for only PyTorch records, and it does not ask for PyTorch's on-demand traces: start "
        "it with KINETO_USE_DAEMON=1, "
        "or leave those activities out";
  }
  return path;
}

absl::Status CheckVia(const v1::TraceRequest& request, const Selection& selection) {
  if (!request.via().empty() && request.via() != "auto" && request.via() != "cupti" &&
      request.via() != "kineto") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--via ", request.via(), " is not known to this aggregator: give auto, cupti or kineto"));
  }
  std::string first;
  for (const SeenRank& seen : selection.ranks) {
    const ChosenPath path = ChoosePath(request, seen.rank);
    if (path.refused.empty()) return absl::OkStatus();
    if (first.empty()) first = path.refused;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("no rank of job ", selection.job, " can be captured like that; the first: ", first));
}

std::string RankList(std::vector<int32_t> ranks) { return NumberRuns(std::move(ranks), 3); }

Selection Select(const v1::TraceRequest& request, const Caller& caller, const std::vector<SeenRank>& seen,
                 size_t daemons) {
  Selection selection;
  std::vector<SeenRank> ranks = seen;
  std::erase_if(ranks, [&](const SeenRank& s) { return !caller.MayUse(s.rank.uid()); });
  selection.error = AnothersJob(request, caller, ranks, seen);
  selection.denied = !selection.error.empty();
  if (selection.denied) return selection;
  if (ranks.empty()) {
    selection.error = NothingSeen(daemons);
    return selection;
  }
  selection.error = ChooseJob(request, ranks);
  if (!selection.error.empty()) return selection;
  std::tie(selection.job, selection.uid) = KeyOf(ranks[0]);
  std::set<int32_t> present;
  for (const SeenRank& s : ranks) {
    present.insert(s.rank.rank());
    selection.world_size = std::max(selection.world_size, s.rank.world_size());
  }
  std::set<int32_t> wanted(request.ranks().begin(), request.ranks().end());
  if (!wanted.empty()) {
    std::erase_if(ranks, [&](const SeenRank& s) { return !wanted.contains(s.rank.rank()); });
    if (ranks.empty()) {
      selection.error =
          absl::StrCat("job ", selection.job, " has no rank ", RankList({wanted.begin(), wanted.end()}),
                       " here; it has ", RankList({present.begin(), present.end()}));
      return selection;
    }
  } else if (request.pids_size() == 0) {
    // A world is at most what a claim of it may cost us.
    constexpr int32_t kMostRanks = 1 << 20;
    for (int32_t r = 0; r < std::min(selection.world_size, kMostRanks); ++r) wanted.insert(r);
  }
  for (const int32_t r : wanted) {
    if (!present.contains(r)) selection.missing_ranks.push_back(r);
  }
  std::sort(ranks.begin(), ranks.end(), [](const SeenRank& a, const SeenRank& b) {
    return std::pair(a.rank.rank(), a.rank.process().pid()) <
           std::pair(b.rank.rank(), b.rank.process().pid());
  });
  selection.ranks = std::move(ranks);
  return selection;
}

}  // namespace lockstep::ingest
