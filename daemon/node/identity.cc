#include "daemon/node/identity.h"

#include <array>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/job_name.h"
#include "base/log/clean_text.h"

namespace lockstep::daemon {
namespace {

constexpr int32_t kMostRanks = 1 << 24;
constexpr size_t kLongestJob = 128;
constexpr char kTorchrunSource[] = "torchrun";
constexpr char kSingleSource[] = "single";
// Slurm gives steps that srun did not start (batch script, interactive, extern) numbers from here up.
constexpr uint32_t kFirstSpecialSlurmStep = 0xFFFFFFF0;

class Variables {
 public:
  explicit Variables(std::string_view lines) {
    while (!lines.empty()) {
      const std::string_view line = lines.substr(0, lines.find('\n'));
      lines.remove_prefix(std::min(line.size() + 1, lines.size()));
      const size_t equals = line.find('=');
      if (equals == 0 || equals == std::string_view::npos) continue;
      // As in a process's environment, the first value of a name counts.
      values_.try_emplace(std::string(line.substr(0, equals)), line.substr(equals + 1));
    }
  }

  // Returns an empty string if the variable is not set.
  std::string Text(const char* name) const {
    const auto it = values_.find(name);
    return it == values_.end() ? std::string() : it->second;
  }

  std::optional<int32_t> Number(const char* name) const {
    int32_t value = 0;
    const std::string text = Text(name);
    if (text.empty() || !absl::SimpleAtoi(text, &value) || value < 0 || value > kMostRanks)
      return std::nullopt;
    return value;
  }
  // Returns the number of the first name that has one.
  template <size_t N>
  std::optional<int32_t> Number(const std::array<const char*, N>& names) const {
    for (const char* name : names) {
      const std::optional<int32_t> value = name == nullptr ? std::nullopt : Number(name);
      if (value) return value;
    }
    return std::nullopt;
  }

 private:
  absl::flat_hash_map<std::string, std::string> values_;
};

// Returns an empty string in a batch script, where srun did not make a step.
std::string SlurmStep(const Variables& v) {
  std::string step = v.Text("SLURM_STEP_ID");
  if (step.empty()) step = v.Text("SLURM_STEPID");
  uint32_t number = 0;
  if (!absl::SimpleAtoi(step, &number) || number >= kFirstSpecialSlurmStep) return "";
  return step;
}

// In every component of a heterogeneous job, this is the first component's number.
std::string SlurmNumber(const Variables& v) {
  const std::string job = v.Text("SLURM_JOB_ID");
  return job.empty() ? v.Text("SLURM_JOBID") : job;
}

std::string SlurmJob(const Variables& v) {
  return SlurmJobName(
      {SlurmNumber(v), v.Text("SLURM_ARRAY_JOB_ID"), v.Text("SLURM_ARRAY_TASK_ID"), SlurmStep(v)});
}

std::string TorchrunJob(const Variables& v) {
  const std::string run = v.Text("TORCHELASTIC_RUN_ID");
  return run == "none" ? "" : run;  // torchrun's default, the same for every job
}

std::string LsfJob(const Variables& v) {
  const std::string job = v.Text("LSB_JOBID");
  const std::string index = v.Text("LSB_JOBINDEX");
  return job.empty() || index.empty() || index == "0" ? job : absl::StrCat(job, "[", index, "]");
}

// Nodes of one job share the rendezvous address, and only one job at a time listens there. A loopback address
// is the same on every node, so there the launcher names the job.
std::string RendezvousJob(const Variables& v, const Identity& identity) {
  const std::string host = v.Text("MASTER_ADDR");
  const std::string port = v.Text("MASTER_PORT");
  if (identity.rank_source != kTorchrunSource || host.empty() || port.empty()) return "";
  if (host == "localhost" || absl::StartsWith(host, "127.") || host == "::1" || host == "0.0.0.0") return "";
  return absl::StrCat(host, ":", port);
}

// The first variable that is set counts.
using Names = std::array<const char*, 3>;

struct RankRule {
  const char* source;
  const char* rank;
  Names world_size;
  Names local_rank;
  // The rule applies only if rank, world size and local rank are all set.
  bool needs_all;
};

// Rules in order of priority. FindRank tries ApplySlurm after them, and then kAfterSlurm.
constexpr RankRule kBeforeSlurm[] = {
    {"LOCKSTEP", "LOCKSTEP_RANK", {"LOCKSTEP_WORLD_SIZE"}, {"LOCKSTEP_LOCAL_RANK"}, false},
    // Many scripts set RANK alone, and some operators use it for the node's number.
    {kTorchrunSource, "RANK", {"WORLD_SIZE"}, {"LOCAL_RANK"}, true},
    {"OMPI", "OMPI_COMM_WORLD_RANK", {"OMPI_COMM_WORLD_SIZE"}, {"OMPI_COMM_WORLD_LOCAL_RANK"}, false},
    // PMIx gives the world size only through its protocol, so these variables come from the launchers.
    {"PMIx",
     "PMIX_RANK",
     {"SLURM_STEP_NUM_TASKS", "FLUX_JOB_SIZE", "JSM_NAMESPACE_SIZE"},
     {"SLURM_LOCALID", "FLUX_TASK_LOCAL_ID", "JSM_NAMESPACE_LOCAL_RANK"},
     false},
};
constexpr RankRule kSlurm = {"Slurm", "SLURM_PROCID", {"SLURM_STEP_NUM_TASKS"}, {"SLURM_LOCALID"}, false};
constexpr RankRule kAfterSlurm[] = {
    {"PMI", "PMI_RANK", {"PMI_SIZE"}, {"MPI_LOCALRANKID", "PMI_LOCAL_RANK", "PALS_LOCAL_RANKID"}, false},
    {"Flux", "FLUX_TASK_RANK", {"FLUX_JOB_SIZE"}, {"FLUX_TASK_LOCAL_ID"}, false},
    {"PALS", "PALS_RANKID", {"PALS_SIZE"}, {"PALS_LOCAL_RANKID"}, false},
    {"JSM", "JSM_NAMESPACE_RANK", {"JSM_NAMESPACE_SIZE"}, {"JSM_NAMESPACE_LOCAL_RANK"}, false},
    // No launcher sets these together with the variables above.
    {"MVAPICH", "MV2_COMM_WORLD_RANK", {"MV2_COMM_WORLD_SIZE"}, {"MV2_COMM_WORLD_LOCAL_RANK"}, false},
    {"ALPS", "ALPS_APP_PE", {}, {}, false},
    {"Horovod", "HOROVOD_RANK", {"HOROVOD_SIZE"}, {"HOROVOD_LOCAL_RANK"}, false},
};

bool Apply(const RankRule& rule, const Variables& v, Identity& identity) {
  const std::optional<int32_t> rank = v.Number(rule.rank);
  const std::optional<int32_t> world = v.Number(rule.world_size);
  const std::optional<int32_t> local = v.Number(rule.local_rank);
  if (!rank || (rule.needs_all && (!world || !local))) return false;
  if (world && *rank >= *world) return false;
  identity.rank = *rank;
  identity.world_size = world.value_or(0);
  identity.local_rank = local.value_or(-1);
  identity.rank_source = rule.source;
  return true;
}

bool ApplySlurm(const Variables& v, Identity& identity) {
  // A batch script has SLURM_PROCID 0 although it is not a task of a step.
  if (SlurmStep(v).empty() && !v.Number("SLURM_STEP_NUM_TASKS")) return false;
  if (Apply(kSlurm, v, identity)) {
    if (identity.world_size == 0) identity.world_size = v.Number("SLURM_NTASKS").value_or(0);
    if (identity.world_size <= identity.rank) identity.world_size = 0;
    return true;
  }
  return false;
}

void FindRank(const Variables& v, Identity& identity) {
  for (const RankRule& rule : kBeforeSlurm) {
    if (Apply(rule, v, identity)) return;
  }
  if (ApplySlurm(v, identity)) return;
  for (const RankRule& rule : kAfterSlurm) {
    if (Apply(rule, v, identity)) return;
  }
  identity.rank = 0;
  identity.world_size = 1;
  identity.local_rank = 0;
  identity.rank_source = kSingleSource;
}

// Slurm's number counts only if Slurm also named the job, because SchedulerJobs knows the owner of each Slurm
// job.
std::string SchedulerJob(const Variables& v, const std::string& job_source) {
  if (job_source == kSlurmSource) return SlurmNumber(v);
  for (const std::string& job : {v.Text("PBS_JOBID"), LsfJob(v), v.Text("FLUX_JOB_ID")}) {
    if (!job.empty()) return SlurmNumber(v).empty() ? job : "";
  }
  return "";
}

void FindJob(const Variables& v, const IdentityInput& input, Identity& identity) {
  const std::pair<const char*, std::string> candidates[] = {
      {"LOCKSTEP", v.Text("LOCKSTEP_JOB")},
      {kSlurmSource, SlurmJob(v)},
      {kTorchrunSource, TorchrunJob(v)},
      {"PMIx", v.Text("PMIX_NAMESPACE")},
      {"PBS", v.Text("PBS_JOBID")},
      {"LSF", LsfJob(v)},
      {"Flux", v.Text("FLUX_JOB_ID")},
      // These are equal on all nodes of a job; the launcher's pid is not.
      {"PALS", v.Text("PALS_APID")},
      {"MASTER_ADDR", RendezvousJob(v, identity)},
      {"lockstep run", identity.rank_source == kSingleSource ? "" : v.Text("LOCKSTEP_LAUNCH")},
  };
  for (const auto& [source, job] : candidates) {
    identity.job = CleanText(job, kLongestJob);
    identity.job_source = source;
    if (!identity.job.empty()) break;
  }
  identity.scheduler_job = CleanText(SchedulerJob(v, identity.job_source), kLongestJob);
  if (!identity.job.empty()) return;
  // A process without a launcher is a job of its own, because its parent shell may have started many such
  // processes.
  const bool alone = identity.rank_source == kSingleSource || input.launcher.pid <= 1;
  const ProcessId& named_by = alone ? input.self : input.launcher;
  identity.job = absl::StrCat("pid-", named_by.pid, "-", named_by.start_ticks);
  identity.job_source = alone ? "process" : "launcher";
}

}  // namespace

std::string SlurmJobName(const SlurmNumbers& numbers) {
  if (numbers.job.empty()) return "";
  std::string name = numbers.job;
  if (!numbers.array_job.empty() && !numbers.array_task.empty())
    name = absl::StrCat(numbers.array_job, "_", numbers.array_task);
  return numbers.step.empty() ? name : absl::StrCat(name, ".", numbers.step);
}

Identity Identify(const IdentityInput& input) {
  const Variables variables(input.variables);
  Identity identity;
  FindRank(variables, identity);
  FindJob(variables, input, identity);
  return identity;
}

}  // namespace lockstep::daemon
