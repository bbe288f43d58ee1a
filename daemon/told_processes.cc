#include "daemon/told_processes.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/process.h"
#include "daemon/process_traits.h"
#include "daemon/text.h"

namespace lockstep::daemon {
namespace {

namespace fs = std::filesystem;

constexpr char kLibrary[] = "liblockstep_client.so";
constexpr char kInjection[] = "CUDA_INJECTION64_PATH";
constexpr int kMostAncestors = 64;
constexpr size_t kShown = 128;

// Launchers' names for a rank, the ones people look for first.
constexpr const char* kRankNames[] = {"LOCKSTEP_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID", "PMI_RANK"};

std::vector<std::string> Lines(const std::string& zero_separated) { return absl::StrSplit(zero_separated, '\0'); }

}  // namespace

std::string ToldProcesses::Read(int32_t pid, const char* name) const {
  std::ifstream file(absl::StrCat(settings_.proc, "/", pid, "/", name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool ToldProcesses::WithRegisteredAncestor(int32_t pid, const std::function<bool(int32_t)>& registered) const {
  const ProcFs processes(settings_.proc);
  for (int i = 0; i < kMostAncestors && pid > 1; ++i) {
    if (registered(pid)) return true;
    const auto info = processes.Find(pid);
    if (!info) return false;
    pid = info->parent_pid;
  }
  return false;
}

bool ToldProcesses::OldEnough(int32_t pid) const {
  const auto info = ProcFs(settings_.proc).Find(pid);
  std::ifstream file(settings_.proc + "/uptime");
  double up = 0;
  if (!info || !(file >> up)) return false;
  const double started = static_cast<double>(info->id.start_ticks) / static_cast<double>(settings_.ticks_per_second);
  return up - started >= settings_.patience.seconds();
}

bool ToldProcesses::Sees(int32_t pid, const std::string& path) const {
  struct stat found = {};
  return ::stat(absl::StrCat(settings_.proc, "/", pid, "/root", path).c_str(), &found) == 0;
}

std::string ToldProcesses::Why(int32_t pid, const Environment& environment, const std::string& maps) const {
  if (absl::StrContains(maps, kLibrary)) {
    if (!Sees(pid, settings_.socket)) {
      return absl::StrCat("the client is loaded, but ", settings_.socket, " is not there for it: mount its folder into the container");
    }
    return "the client is loaded and did not connect: it runs in another pid namespace (use hostPID), or as a user whom this daemon "
           "does not serve";
  }
  const auto injection = environment.find(kInjection);
  if (injection == environment.end() || injection->second.empty()) {
    return absl::StrCat(kInjection, " is not in its environment: a launcher or script has dropped it; put lockstep run behind it");
  }
  const std::string value = CleanText(injection->second, kShown);
  if (!absl::EndsWith(injection->second, kLibrary)) {
    return absl::StrCat(kInjection, " is ", value, ": somebody else has set it, and CUDA loads one library only");
  }
  if (!Sees(pid, injection->second)) {
    return absl::StrCat(value, " is not there for it: mount the folder into the container");
  }
  return absl::StrCat("CUDA has not loaded ", value, ": is it readable for its user, and does the program link CUDA statically with "
                      "injection switched off? lockstep run --preload loads it otherwise");
}

std::vector<int32_t> ToldProcesses::Pids(uid_t uid) const {
  std::vector<int32_t> pids;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(settings_.proc, error)) {
    int32_t pid = 0;
    struct stat owner = {};
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid) || ::stat(entry.path().c_str(), &owner) != 0) continue;
    if (uid == 0 || owner.st_uid == uid) pids.push_back(pid);
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

ToldProcesses::Environment ToldProcesses::EnvironmentOf(int32_t pid) const {
  Environment environment;
  for (const std::string& line : Lines(Read(pid, "environ"))) {
    if (const size_t equals = line.find('='); equals != std::string::npos) {
      environment.emplace(line.substr(0, equals), line.substr(equals + 1));
    }
  }
  return environment;
}

bool ToldProcesses::WasTold(const Environment& environment) const {
  const auto socket = environment.find("LOCKSTEP_SOCKET");
  return socket != environment.end() && socket->second == settings_.socket;
}

bool ToldProcesses::AnyLives(uid_t uid) const {
  const std::vector<int32_t> pids = Pids(uid);
  return std::any_of(pids.begin(), pids.end(), [this](int32_t pid) {
    if (!WasTold(EnvironmentOf(pid))) return false;
    const std::string name = Read(pid, "comm");
    return name != "lockstepd\n" && name != "lockstep\n" && !absl::StartsWith(name, "lockstep-aggreg");
  });
}

std::vector<std::string> ToldProcesses::Unreached(uid_t uid, const std::function<bool(int32_t)>& registered) const {
  std::vector<std::string> found;
  for (const int32_t pid : Pids(uid)) {
    const Environment environment = EnvironmentOf(pid);
    if (!WasTold(environment)) continue;
    const std::string maps = Read(pid, "maps");
    if (!CudaIsUp({settings_.proc, settings_.dev}, pid, maps) || !OldEnough(pid) || WithRegisteredAncestor(pid, registered)) continue;
    std::string who = absl::StrCat("pid ", pid);
    for (const char* name : kRankNames) {
      if (const auto rank = environment.find(name); rank != environment.end()) {
        who = absl::StrCat("rank ", CleanText(rank->second, kShown), " (pid ", pid, ")");
        break;
      }
    }
    found.push_back(absl::StrCat(who, " uses a GPU and has not reached this daemon: ", Why(pid, environment, maps)));
  }
  return found;
}

}  // namespace lockstep::daemon
