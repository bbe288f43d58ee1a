#include "aggregator/captures/selection.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/job_name.h"
#include "base/number_runs.h"

namespace lockstep::aggregator {
namespace {

JobKey KeyOf(const SeenRank& seen) { return {seen.rank.job(), seen.rank.uid()}; }

std::map<JobKey, std::vector<int32_t>> Jobs(const std::vector<SeenRank>& seen) {
  std::map<JobKey, std::vector<int32_t>> jobs;
  for (const SeenRank& s : seen) jobs[KeyOf(s)].push_back(s.rank.rank());
  return jobs;
}

std::string Describe(const std::string& name, const std::vector<int32_t>& ranks) {
  return absl::StrCat(name, " (", ranks.size() == 1 ? "rank " : "ranks ", RankList(ranks), ")");
}

// Formats jobs as "job-a (ranks 0-3), job-b (rank 0)".
std::string DescribeJobs(const std::vector<SeenRank>& seen) {
  const auto jobs = Jobs(seen);
  std::map<std::string, int> same_name;
  for (const auto& [job, ranks] : jobs) ++same_name[job.job];
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
      " connected but no GPU process has registered there: start the job with `lockstep run -- COMMAND`, or "
      "wait until it has initialised CUDA; `lockstep status` lists the ranks");
}

bool NamesExactly(const std::string& wanted, const SeenRank& seen) {
  return wanted == seen.rank.job() || wanted == absl::StrCat(seen.rank.uid(), ":", seen.rank.job());
}

bool Selects(const std::string& wanted, const SeenRank& seen) {
  const v1::Rank& rank = seen.rank;
  const JobNames names = {rank.job(), rank.job_source(), rank.scheduler_job()};
  const std::string owner = absl::StrCat(rank.uid(), ":");
  return SelectsJob(wanted, names) || (absl::StartsWith(wanted, owner) &&
                                       SelectsJob(std::string_view(wanted).substr(owner.size()), names));
}

// A batch script's own processes have the job's name; its steps add a number. A request with the job's name
// alone therefore selects the batch script's processes if there are any.
void KeepJob(const std::string& wanted, std::vector<SeenRank>& ranks) {
  const bool exact =
      std::any_of(ranks.begin(), ranks.end(), [&](const SeenRank& s) { return NamesExactly(wanted, s); });
  // Selects whole jobs, because processes that ssh started on other nodes know only their launcher's job
  // name.
  std::set<JobKey> meant;
  for (const SeenRank& s : ranks) {
    if (exact ? NamesExactly(wanted, s) : Selects(wanted, s)) meant.insert(KeyOf(s));
  }
  std::erase_if(ranks, [&](const SeenRank& s) { return !meant.contains(KeyOf(s)); });
}

// Keeps the ranks that the request's job, pids or `all` select. Returns a sentence if these are not the ranks
// of one job.
std::string ChooseJob(const v1::TraceRequest& request, std::vector<SeenRank>& ranks) {
  const std::string found = DescribeJobs(ranks);
  if (!request.job().empty()) {
    KeepJob(request.job(), ranks);
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
      return absl::StrCat("no GPU process with pid ", absl::StrJoin(unknown, ", "),
                          " has registered; there are ", found, ": `lockstep status` lists their pids");
    }
  }
  if (Jobs(ranks).size() > 1) {
    return absl::StrCat("the request selects ranks of several jobs, but a capture holds one job; there are ",
                        DescribeJobs(ranks), ": name one with --job");
  }
  return "";
}

// Returns a sentence if only another user has the requested ranks.
std::string OtherUsersJob(const v1::TraceRequest& request, const Caller& caller,
                          const std::vector<SeenRank>& own, const std::vector<SeenRank>& all) {
  const std::set<int32_t> pids(request.pids().begin(), request.pids().end());
  const auto requested = [&](const SeenRank& s) {
    return Selects(request.job(), s) || pids.contains(s.rank.process().pid());
  };
  if ((request.job().empty() && pids.empty()) || std::any_of(own.begin(), own.end(), requested)) return "";
  const auto found = std::find_if(all.begin(), all.end(), requested);
  if (found == all.end()) return "";
  const OwnedJob job = {found->rank.job(), found->rank.uid()};
  return std::string(caller.CheckCapture(absl::StrCat("job ", job.name), job).message());
}

}  // namespace

std::vector<SeenRank> RanksOfThePast(const v1::TraceRequest& request, const Caller& caller,
                                     std::vector<SeenRank> living, std::vector<SeenRank> departed) {
  if (request.departed()) living.clear();
  if (request.job().empty() && request.pids().empty() && !request.all()) {
    const auto hidden = [&](const SeenRank& s) { return !caller.MayCapture({s.rank.job(), s.rank.uid()}); };
    std::erase_if(living, hidden);
    std::erase_if(departed, hidden);
    std::set<JobKey> jobs;
    for (const SeenRank& seen : living) jobs.insert(KeyOf(seen));
    for (size_t i = 0; i < departed.size() && living.empty(); ++i) {
      const bool newest = i + 1 == departed.size() || departed[i + 1].daemon != departed[i].daemon;
      if (newest) jobs.insert(KeyOf(departed[i]));
    }
    std::erase_if(departed, [&](const SeenRank& seen) { return !jobs.contains(KeyOf(seen)); });
  }
  using Place = std::pair<JobKey, int32_t>;
  const auto place_of = [](const SeenRank& seen) { return Place(KeyOf(seen), seen.rank.rank()); };
  std::set<Place> taken;
  for (const SeenRank& seen : living) taken.insert(place_of(seen));
  for (auto seen = departed.rbegin(); seen != departed.rend(); ++seen) {
    if (taken.insert(place_of(*seen)).second) living.push_back(*seen);
  }
  return living;
}

ChosenPath ChoosePath(const v1::TraceRequest& request, const v1::Rank& rank) {
  ChosenPath path;
  if (request.past_ns() != 0) return path;
  const bool client = rank.via() != "kineto";
  const bool framework = request.framework() != 0;
  if (request.via() == "kineto" || (request.via() != "cupti" && (!client || (framework && rank.kineto())))) {
    path.kineto = true;
    if (!rank.kineto()) {
      path.refused =
          "it does not poll for PyTorch's on-demand traces: start it with KINETO_USE_DAEMON=1 (lockstep run "
          "--mode kineto sets it)";
    }
    return path;
  }
  path.kineto_if_held = request.via() != "cupti" && client && rank.kineto();
  if (!client)
    path.refused =
        "Lockstep's client is not loaded in it: --via kineto reaches it, or start it with lockstep run";
  if (client && framework) {
    path.refused =
        "only PyTorch records the requested activities, and it does not poll for PyTorch's on-demand traces: "
        "start it with KINETO_USE_DAEMON=1 (lockstep run --mode kineto), or leave those activities out";
  }
  return path;
}

absl::Status CheckVia(const v1::TraceRequest& request, const Selection& selection) {
  if (!request.via().empty() && request.via() != "auto" && request.via() != "cupti" &&
      request.via() != "kineto") {
    return absl::InvalidArgumentError(
        absl::StrCat("--via ", request.via(), " is unknown to this aggregator: give auto, cupti or kineto"));
  }
  std::string first;
  for (const SeenRank& seen : selection.ranks) {
    const ChosenPath path = ChoosePath(request, seen.rank);
    if (path.refused.empty()) return absl::OkStatus();
    if (first.empty()) first = path.refused;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "no rank of job ", selection.job, " can be captured in the requested way; the first: ", first));
}

std::string RankList(std::vector<int32_t> ranks) { return NumberRuns(std::move(ranks), 3); }

Selection Select(const v1::TraceRequest& request, const Caller& caller, const std::vector<SeenRank>& seen,
                 size_t daemons) {
  Selection selection;
  std::vector<SeenRank> ranks = seen;
  std::erase_if(ranks, [&](const SeenRank& s) { return !caller.MayCapture({s.rank.job(), s.rank.uid()}); });
  selection.error = OtherUsersJob(request, caller, ranks, seen);
  selection.denied = !selection.error.empty();
  if (selection.denied) return selection;
  if (ranks.empty()) {
    selection.error = NothingSeen(daemons);
    return selection;
  }
  selection.error = ChooseJob(request, ranks);
  if (!selection.error.empty()) return selection;
  selection.job = ranks[0].rank.job();
  selection.uid = ranks[0].rank.uid();
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
    // The limit bounds the cost of a false claim about the world's size.
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

}  // namespace lockstep::aggregator
