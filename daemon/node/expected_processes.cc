#include "daemon/node/expected_processes.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/client_entry.h"
#include "base/log/clean_text.h"
#include "daemon/node/process.h"
#include "daemon/node/process_traits.h"

namespace lockstep::daemon {
namespace {

namespace fs = std::filesystem;

constexpr char kSocketVariable[] = "LOCKSTEP_SOCKET";
constexpr int kMostParents = 64;
constexpr size_t kShown = 128;

// Launchers' names for a rank, the most familiar first. Messages show the first that is set.
constexpr const char* kRankNames[] = {"LOCKSTEP_RANK",       "RANK",         "OMPI_COMM_WORLD_RANK",
                                      "PMIX_RANK",           "SLURM_PROCID", "PMI_RANK",
                                      "FLUX_TASK_RANK",      "PALS_RANKID",  "JSM_NAMESPACE_RANK",
                                      "MV2_COMM_WORLD_RANK", "ALPS_APP_PE",  "HOROVOD_RANK"};

bool IsOurProgram(const std::string& name) {
  return name == "lockstepd" || name == "lockstep" || absl::StartsWith(name, "lockstep-aggreg") ||
         name == "lockstep-broker";
}

std::string FolderOf(const std::string& path) { return fs::path(path).parent_path().string(); }

}  // namespace

bool ExpectedProcesses::WithRegisteredAncestor(int32_t pid) const {
  for (int i = 0; i < kMostParents && pid > 1; ++i) {
    if (known_.registered(pid)) return true;
    const auto info = FindProcess(access_, pid);
    if (!info) return false;
    pid = info->parent_pid;
  }
  return false;
}

ExpectedProcesses::Ancestor ExpectedProcesses::ReadAncestor(int32_t pid) const {
  const auto info = FindProcess(access_, pid);
  if (!info) return {};
  const bool expected = known_.probed(info->id) || NamesOurSocket(pid, EnvironmentOf(pid));
  return {info->parent_pid, expected && !IsOurProgram(NameOf(pid))};
}

int32_t ExpectedProcesses::NearestExpected(int32_t pid, AncestorCache& ancestors) const {
  for (int i = 0; i < kMostParents && pid > 1; ++i) {
    auto known = ancestors.find(pid);
    if (known == ancestors.end()) known = ancestors.emplace(pid, ReadAncestor(pid)).first;
    if (known->second.expected) return pid;
    pid = known->second.parent;
  }
  return 0;
}

bool ExpectedProcesses::OldEnough(int32_t pid) const {
  const auto info = FindProcess(access_, pid);
  std::ifstream file(settings_.uptime);
  double up = 0;
  if (!info || !(file >> up)) return false;
  const double started =
      static_cast<double>(info->id.start_ticks) / static_cast<double>(settings_.ticks_per_second);
  return up - started >= settings_.min_age.seconds();
}

bool ExpectedProcesses::CanSee(int32_t pid, const std::string& path) const {
  return access_.StatAsSeenBy(pid, path).has_value();
}

bool ExpectedProcesses::IsOurSocket(int32_t pid, const std::string& path) const {
  const std::optional<struct stat> seen = access_.StatAsSeenBy(pid, path);
  const std::optional<std::pair<dev_t, ino_t>> ours = settings_.socket_file();
  if (seen && ours) return std::pair(seen->st_dev, seen->st_ino) == *ours;
  return path == settings_.socket;
}

bool ExpectedProcesses::NamesOurSocket(int32_t pid, const Environment& environment) const {
  const auto socket = environment.find(kSocketVariable);
  return socket != environment.end() && IsOurSocket(pid, socket->second);
}

std::string ExpectedProcesses::NameOf(int32_t pid) const {
  std::string name = ReadProcFile(access_, pid, "comm");
  if (!name.empty() && name.back() == '\n') name.pop_back();
  return CleanText(name, kShown);
}

ExpectedProcesses::Candidate ExpectedProcesses::Classify(int32_t pid, AncestorCache& ancestors) const {
  Candidate found{.pid = pid, .environment = EnvironmentOf(pid)};
  const auto socket = found.environment.find(kSocketVariable);
  if (socket != found.environment.end()) {
    if (IsOurSocket(pid, socket->second)) {
      found.tie = Tie::kByEnvironment;
      return found;
    }
    // The address is another daemon's if the path exists for the process. Otherwise the value comes from
    // another mount namespace.
    if (CanSee(pid, socket->second)) return found;
  }
  found.expected_pid = NearestExpected(pid, ancestors);
  if (found.expected_pid != 0) {
    found.tie = Tie::kBelowExpected;
  } else if (socket == found.environment.end() &&
             std::any_of(std::begin(kRankNames), std::end(kRankNames),
                         [&](const char* name) { return found.environment.count(name) > 0; })) {
    found.tie = Tie::kRankWithoutAddress;
  }
  return found;
}

std::string ExpectedProcesses::ReasonNotConnected(const Candidate& candidate) const {
  const auto address = candidate.environment.find(kSocketVariable);
  const std::string socket = address == candidate.environment.end() ? settings_.socket : address->second;
  if (!CanSee(candidate.pid, socket)) {
    return absl::StrCat("the client is loaded, but ", CleanText(socket, kShown),
                        " is not visible to it: mount its folder into the container");
  }
  const std::optional<struct stat> folder = access_.StatAsSeenBy(candidate.pid, FolderOf(socket));
  if (folder && !access_.MapsUser(candidate.pid, folder->st_uid)) {
    return absl::StrCat("the client is loaded, but user ", folder->st_uid, ", to whom the folder of ",
                        CleanText(socket, kShown),
                        " belongs, does not exist in the container's user namespace, so the folder is not "
                        "trusted: let `lockstep run` in "
                        "the container start a daemon of its own");
  }
  const auto injection = candidate.environment.find(kCudaInjection);
  if (injection != candidate.environment.end() && !injection->second.empty() &&
      !absl::EndsWith(injection->second, kClientLibrary)) {
    return absl::StrCat(kCudaInjection, " is ", CleanText(injection->second, kShown),
                        ", another tool's; the client is preloaded and starts with NCCL's first "
                        "communicator, which has not come");
  }
  return "the client is loaded and did not connect: it runs in another pid namespace (use hostPID), or as a "
         "user whom this daemon "
         "does not serve";
}

std::string ExpectedProcesses::ReasonEnvironmentDropped(const Candidate& candidate) const {
  if (candidate.tie == Tie::kRankWithoutAddress) {
    return absl::StrCat(
        "it has no daemon's address: it was started without `lockstep run`, or its launcher dropped the "
        "variables (ssh, srun --export=NONE): ",
        kRunBeforeProgram);
  }
  const auto socket = candidate.environment.find(kSocketVariable);
  if (socket != candidate.environment.end()) {
    return absl::StrCat(kSocketVariable, " is ", CleanText(socket->second, kShown),
                        ", which is not visible to it: mount its folder into the container");
  }
  if (candidate.expected_pid == candidate.pid) {
    return absl::StrCat(
        "the command of `lockstep run` has dropped the variables that `lockstep run` set (env -i, sudo, srun "
        "--export=NONE): ",
        kRunBeforeProgram);
  }
  return absl::StrCat(
      "a launcher below ", NameOf(candidate.expected_pid), " (pid ", candidate.expected_pid,
      ") has dropped the variables that `lockstep run` set (env -i, sudo, srun --export=NONE, ssh): ",
      kRunBeforeProgram);
}

std::string ExpectedProcesses::Reason(const Candidate& candidate, const std::string& maps) const {
  if (absl::StrContains(maps, kClientLibrary)) return ReasonNotConnected(candidate);
  const auto injection = candidate.environment.find(kCudaInjection);
  if (candidate.tie != Tie::kByEnvironment) return ReasonEnvironmentDropped(candidate);
  if (injection == candidate.environment.end() || injection->second.empty()) {
    return absl::StrCat(kCudaInjection, " is not in its environment: a launcher or script has dropped it; ",
                        kRunBeforeProgram);
  }
  const std::string value = CleanText(injection->second, kShown);
  if (!absl::EndsWith(injection->second, kClientLibrary)) {
    return absl::StrCat(kCudaInjection, " is ", value,
                        ": another tool has set it, and CUDA loads only one library");
  }
  if (!CanSee(candidate.pid, injection->second)) {
    return absl::StrCat(value, " is not visible to it: mount the folder into the container");
  }
  return absl::StrCat("CUDA has not loaded ", value,
                      ": make it readable for its user; if the program links CUDA statically with injection "
                      "disabled, use lockstep run --preload");
}

std::vector<int32_t> ExpectedProcesses::Pids(uid_t uid) const {
  std::vector<int32_t> pids;
  for (const ProcessOwner& process : access_.Processes()) {
    if (uid == 0 || process.uid == uid) pids.push_back(process.pid);
  }
  return pids;
}

ExpectedProcesses::Environment ExpectedProcesses::EnvironmentOf(int32_t pid) const {
  Environment environment;
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(ReadProcFile(access_, pid, "environ"), '\0'))) {
    if (const size_t equals = line.find('='); equals != std::string::npos) {
      environment.emplace(line.substr(0, equals), line.substr(equals + 1));
    }
  }
  return environment;
}

bool ExpectedProcesses::AnyAlive(uid_t uid) const {
  const std::vector<int32_t> pids = Pids(uid);
  return std::any_of(pids.begin(), pids.end(), [this](int32_t pid) {
    const Environment environment = EnvironmentOf(pid);
    if (environment.count(kSocketVariable) > 0)
      return NamesOurSocket(pid, environment) && !IsOurProgram(NameOf(pid));
    const auto info = FindProcess(access_, pid);
    return info.has_value() && known_.probed(info->id) && !IsOurProgram(NameOf(pid));
  });
}

std::vector<std::string> ExpectedProcesses::Unreached(uid_t uid) const {
  std::vector<std::string> found;
  AncestorCache ancestors;
  for (const int32_t pid : Pids(uid)) {
    const Candidate candidate = Classify(pid, ancestors);
    if (candidate.tie == Tie::kNone || known_.reported(pid)) continue;
    if (candidate.tie != Tie::kByEnvironment && known_.by_profiler(pid)) continue;
    const std::string maps = ReadProcFile(access_, pid, "maps");
    if (!access_.CudaIsUp(pid) || !OldEnough(pid) || WithRegisteredAncestor(pid)) continue;
    std::string who = absl::StrCat("pid ", pid, ", ", NameOf(pid));
    for (const char* name : kRankNames) {
      if (const auto rank = candidate.environment.find(name); rank != candidate.environment.end()) {
        who = absl::StrCat("rank ", CleanText(rank->second, kShown), " (", who, ")");
        break;
      }
    }
    found.push_back(
        absl::StrCat(who, " uses a GPU but has not registered with this daemon: ", Reason(candidate, maps)));
  }
  return found;
}

}  // namespace lockstep::daemon
