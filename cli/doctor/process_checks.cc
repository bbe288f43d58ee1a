#include "cli/doctor/process_checks.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/client_entry.h"
#include "base/files/read_files.h"
#include "base/other_process.h"
#include "base/socket_path.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEntries[] = {"LD_PRELOAD", kCudaInjection, kNvtxInjection, kNcclPlugin};

struct Tool {
  const char* part;  // searched in the path of a mapped file or in a variable's name
  const char* name;
};
constexpr Tool kToolLibraries[] = {{"/libToolsInjection", "Nsight Systems"},
                                   {"/libInterceptorInjectionTarget", "Nsight Compute"},
                                   {"/libTreeLauncherTargetInjection", "Nsight Compute"},
                                   {"/libsanitizer-collection", "compute-sanitizer"},
                                   {"/libhpcrun", "HPCToolkit"},
                                   {"/libscorep", "Score-P"},
                                   {"/libTAU", "TAU"}};
constexpr Tool kToolVariables[] = {{"NSYS_PROFILING_SESSION_ID", "Nsight Systems"},
                                   {"NV_TPS_LAUNCH_TOKEN", "Nsight Compute"}};

template <typename... Parts>
Finding Works(const Parts&... parts) {
  return {Verdict::kWorks, absl::StrCat(parts...)};
}
template <typename... Parts>
Finding Note(const Parts&... parts) {
  return {Verdict::kNote, absl::StrCat(parts...)};
}
template <typename... Parts>
Finding Broken(const Parts&... parts) {
  return {Verdict::kBroken, absl::StrCat(parts...)};
}

absl::StatusOr<std::string> ReadAll(const fs::path& path) {
  std::optional<std::string> text = FileText(path.string());
  if (!text.has_value()) return absl::ErrnoToStatus(errno, path.string());
  return *std::move(text);
}

// Removes control characters from text of other programs before it reaches a terminal.
std::string Shown(const std::string& text) {
  std::string out = text.substr(0, 200);
  for (char& c : out) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = '?';
  }
  return out;
}

std::map<std::string, std::string> Pairs(const std::string& text, char line_end, char between) {
  std::map<std::string, std::string> out;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, line_end))) {
    const size_t at = line.find(between);
    if (at == std::string::npos) continue;
    out.emplace(line.substr(0, at), std::string(absl::StripAsciiWhitespace(line.substr(at + 1))));
  }
  return out;
}

// The path follows the fifth field. The path of a file that was replaced since then ends in " (deleted)".
std::vector<std::string> MappedFiles(const std::string& maps) {
  std::vector<std::string> out;
  std::set<std::string> seen;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(maps, '\n'))) {
    const size_t slash = line.find('/');
    if (slash != std::string::npos && seen.insert(line.substr(slash)).second)
      out.push_back(line.substr(slash));
  }
  return out;
}

std::vector<std::string> MappedNamed(const ProcessView& process, const std::string& part) {
  std::vector<std::string> out;
  for (const std::string& file : process.mapped) {
    if (absl::StrContains(file, part)) out.push_back(Shown(file));
  }
  return out;
}

bool Sees(const ProcessView& process, const std::string& path) {
  struct stat found = {};
  return StatAsSeenBy(process.proc, process.pid, path, &found);
}

Finding ClientOfCuda(const ProcessView& process) {
  const std::string value = process.Variable(kCudaInjection);
  if (value.empty())
    return Broken("client: not loaded; ", kCudaInjection, " is not in its environment: ", kRunBeforeProgram);
  if (!absl::EndsWith(value, kClientLibraryInFolder)) {
    return Broken("client: not loaded; ", kCudaInjection, " is ", Shown(value),
                  ", another tool's, and CUDA loads one only: unset it, or use `lockstep run --preload`");
  }
  if (!Sees(process, value)) {
    return Broken("client: not loaded; ", Shown(value),
                  " is not visible to it: mount the folder into the container");
  }
  return Broken("client: not loaded, although ", kCudaInjection, " is ", Shown(value),
                ": check that its user can read it, or use `lockstep run --preload`");
}

}  // namespace

std::string ProcessView::Variable(const std::string& name) const {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

absl::StatusOr<ProcessView> ViewProcess(const fs::path& root, int32_t pid) {
  ProcessView view{.proc = (root / "proc").string(), .pid = pid};
  const fs::path folder = fs::path(view.proc) / std::to_string(pid);
  struct stat owner = {};
  if (::stat(folder.c_str(), &owner) != 0)
    return absl::NotFoundError(absl::StrCat("no process ", pid, " exists here"));
  view.uid = owner.st_uid;
  const auto maps = ReadAll(folder / "maps");
  const auto environment = ReadAll(folder / "environ");
  if (!maps.ok() || !environment.ok()) {
    return absl::PermissionDeniedError(
        absl::StrCat("process ", pid, " belongs to user ", view.uid, ", and ",
                     (maps.ok() ? environment.status() : maps.status()).message(),
                     ": run this command and its daemon as that user or as root"));
  }
  view.mapped = MappedFiles(*maps);
  view.environment = Pairs(*environment, '\0', '=');
  view.status = Pairs(ReadAll(folder / "status").value_or(""), '\n', ':');
  view.name = Shown(std::string(absl::StripAsciiWhitespace(ReadAll(folder / "comm").value_or(""))));
  return view;
}

Finding DescribeProcess(const ProcessView& process) {
  std::string scope(absl::StripAsciiWhitespace(
      ReadAll(fs::path(process.proc) / "sys/kernel/yama/ptrace_scope").value_or("")));
  if (!scope.empty()) scope = absl::StrCat(" (ptrace scope ", Shown(scope), " does not matter)");
  return Works("process: ", process.pid, " (", process.name, ") of user ", process.uid,
               "; its /proc files are readable, and Lockstep does not attach to it", scope);
}

Finding CheckClient(const ProcessView& process) {
  const std::vector<std::string> loaded = MappedNamed(process, kClientLibraryInFolder);
  if (!loaded.empty()) {
    std::vector<std::string> by;
    for (const char* name : kEntries) {
      if (absl::StrContains(process.Variable(name), kClientLibraryInFolder)) by.push_back(name);
    }
    const std::string entry = by.empty() ? "the program itself" : absl::StrJoin(by, ", ");
    if (loaded.size() == 1) return Works("client: loaded from ", loaded[0], ", by ", entry);
    return Broken("client: loaded from ", absl::StrJoin(loaded, " and "), ", by ", entry,
                  ": two installations; remove one from its environment");
  }
  if (!MappedNamed(process, "/libcuda.so").empty()) return ClientOfCuda(process);
  const std::string injection = process.Variable(kCudaInjection);
  if (absl::EndsWith(injection, kClientLibraryInFolder)) {
    return Works("client: loads with CUDA, which the process has not used yet, from ", Shown(injection));
  }
  return Note("client: the process has not used CUDA yet, and CUDA will not load the client: ",
              kRunBeforeProgram);
}

std::vector<Finding> CheckCudaLibraries(const ProcessView& process) {
  std::vector<Finding> out;
  for (const std::string name : {"libcuda", "libcudart", "libcupti", "libnccl"}) {
    const std::vector<std::string> files = MappedNamed(process, absl::StrCat("/", name, ".so"));
    if (files.empty()) continue;
    if (files.size() > 1 && name == "libcupti") {
      out.push_back(Note("libcupti: two are loaded, ", absl::StrJoin(files, " and "),
                         ": the client uses the one that was loaded first; tools with the other cannot "
                         "record at the same time"));
    } else {
      out.push_back(Works(name, ": ", absl::StrJoin(files, " and ")));
    }
  }
  return out;
}

std::vector<Finding> CheckOtherTools(const ProcessView& process) {
  std::vector<Finding> out;
  std::set<std::string> tools;
  for (const Tool& tool : kToolLibraries) {
    for (const std::string& file : MappedNamed(process, tool.part)) {
      if (tools.insert(tool.name).second) {
        out.push_back(Broken(tool.name, ": is in the process (", file,
                             "), and CUPTI serves one tool at a time: end its session first"));
      }
    }
  }
  for (const Tool& tool : kToolVariables) {
    if (process.environment.count(tool.part) > 0 && tools.insert(tool.name).second) {
      out.push_back(
          Note(tool.name, ": started the process (", tool.part, "); while it records CUDA, it holds CUPTI"));
    }
  }
  const std::string injection = process.Variable(kCudaInjection);
  if (!injection.empty() && !absl::EndsWith(injection, kClientLibraryInFolder) &&
      !MappedNamed(process, kClientLibraryInFolder).empty()) {
    out.push_back(Note(kCudaInjection, ": is ", Shown(injection),
                       ", another tool's; the client starts with NCCL's first communicator, and records if "
                       "that tool leaves CUPTI to it"));
  }
  const auto tracer = process.status.find("TracerPid");
  if (tracer != process.status.end() && tracer->second != "0") {
    out.push_back(Note("debugger: process ", tracer->second,
                       " traces it; the client does not respond while it is stopped"));
  }
  return out;
}

std::vector<Finding> CheckItsGpu(const ProcessView& process) {
  std::vector<Finding> out;
  const std::string devices = process.Variable("CUDA_VISIBLE_DEVICES");
  if (absl::StrContains(devices, "MIG-")) {
    out.push_back(Note("MIG: it runs on an instance (", Shown(devices),
                       "): its kernels compare only with those of equal instances"));
  }
  for (const char* name : {"CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"}) {
    if (process.environment.count(name) == 0) continue;
    out.push_back(
        Note("MPS: it is a client (", name, "=", Shown(process.Variable(name)),
             "): ranks that share a GPU run at the same time, so its kernels take longer than alone"));
  }
  return out;
}

std::vector<Finding> CheckNamespaces(const ProcessView& process) {
  std::vector<Finding> out;
  const auto pids = process.status.find("NSpid");
  const std::vector<std::string> chain =
      pids == process.status.end() ? std::vector<std::string>()
                                   : absl::StrSplit(pids->second, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (chain.size() > 1) {
    out.push_back(Note("pid namespace: separate, its pid there is ", Shown(chain.back()),
                       "; a daemon in another container cannot see it and refuses it (hostPID)"));
  }
  return out;
}

Finding CheckSocket(const ProcessView& process) {
  const std::string configured = process.Variable("LOCKSTEP_SOCKET");
  const std::string runtime_dir = process.Variable("XDG_RUNTIME_DIR");
  SocketSearch search;
  search.environment = configured.c_str();
  search.runtime_dir = runtime_dir.c_str();
  search.uid = process.uid;
  const SocketPlaces places = DaemonSocketPlaces(search);
  std::vector<std::string> tried;
  for (int i = 0; i < places.count; ++i) {
    const std::string path = places.place[i].path;
    struct stat folder = {};
    tried.push_back(Shown(path));
    if (!Sees(process, path) ||
        !StatAsSeenBy(process.proc, process.pid, fs::path(path).parent_path().string(), &folder))
      continue;
    if (!MapsUser(process.proc, process.pid, folder.st_uid)) {
      return Broken("socket: ", tried.back(), " is visible to it, but its folder belongs to user ",
                    folder.st_uid,
                    ", who does not exist in its user namespace: start a daemon in the container with "
                    "`lockstep run`");
    }
    const bool foreign = folder.st_uid != 0 && folder.st_uid != process.uid;
    if (foreign || (folder.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
      const FolderVerdict verdict = foreign ? FolderVerdict::kForeignOwner : FolderVerdict::kOthersMayWrite;
      return Broken("socket: ", tried.back(), ": ", Explain(verdict));
    }
    return Works("socket: ", tried.back(), " is visible to it");
  }
  if (!configured.empty()) {
    return Broken("socket: LOCKSTEP_SOCKET is ", Shown(configured),
                  ", which is not visible to it: mount its folder into the container");
  }
  return Broken("socket: LOCKSTEP_SOCKET is not in its environment, and no socket exists at ",
                absl::StrJoin(tried, ", "), ": ", kRunBeforeProgram);
}

}  // namespace lockstep::cli
