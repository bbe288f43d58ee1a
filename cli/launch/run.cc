// Implements `lockstep run`: loads the client into a command by environment variables alone, and executes
// that command.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/client_entry.h"
#include "base/kineto_folder.h"
#include "cli/common/command.h"
#include "cli/common/daemon_socket.h"
#include "cli/common/installation.h"
#include "cli/launch/job_aggregator.h"
#include "cli/launch/launcher_aggregator.h"

namespace lockstep::cli {
namespace {

constexpr Nanos kReadyWithin = Nanos::Seconds(5);

constexpr char kRunAbout[] =
    "Run a command so that Lockstep can capture it: each GPU process registers with its node's daemon.\n"
    "\n"
    "It only sets environment variables. If one already names another tool, Lockstep passes NVTX and NCCL "
    "calls\n"
    "on to that tool; it reports other variables and leaves them unchanged. The command keeps the pid, the\n"
    "signals, the standard streams and the exit code. If no daemon answers, it starts one, which exits 10 s\n"
    "after its last process. If no daemon can start, the command runs without Lockstep.\n"
    "\n"
    "Examples:\n"
    "  lockstep run -- python train.py\n"
    "  mpiexec -n 8 lockstep run -- python train.py\n"
    "  srun --ntasks=64 lockstep run -- python train.py\n"
    "  lockstep run --with-aggregator -- mpiexec -n 64 lockstep run -- python train.py     several nodes\n"
    "Then, in another terminal on that node:\n"
    "  lockstep trace --duration 2s\n";

struct RunFlags {
  std::string mode = "auto";
  std::string daemon;
  bool preload = false;
  bool with_aggregator = false;
  bool print_environment = false;
};

struct Variable {
  const char* name;
  const char* missing;  // not captured if another tool has set the variable
  // Variable in which the client finds the tool that was set before. The client loads it and passes every
  // call on. Null: not possible.
  const char* chain;
};
constexpr Variable kCuda = {kCudaInjection, "GPU kernels, copies and CUDA calls", nullptr};
constexpr Variable kNvtx = {kNvtxInjection, "NVTX ranges and steps", "LOCKSTEP_NVTX_CHAIN"};
constexpr Variable kNccl = {kNcclPlugin, "the collective of each kernel", "LOCKSTEP_NCCL_CHAIN"};
// CUDA loads the other tool; the client is preloaded nevertheless.
constexpr Variable kCudaWithPreload = {
    kCudaInjection, "activity before NCCL's first communicator, where the preloaded client starts,", nullptr};
// NCCL copies the path to a buffer of this length and its terminating zero (2.28.9).
constexpr size_t kLongestNcclPlugin = 254;
constexpr char kKineto[] = "KINETO_USE_DAEMON";
constexpr char kSocket[] = "LOCKSTEP_SOCKET";
// The client keeps the progress of communicators for `lockstep hang`.
constexpr char kProgress[] = "LOCKSTEP_PROGRESS";

// Returns true for the client of any installation: an outer `lockstep run` may have set it, possibly outside
// of this container.
bool IsOurClient(const std::string& path) { return absl::EndsWith(path, kClientLibraryInFolder); }

// Values with which NCCL loads no library.
bool NamesNoLibrary(const std::string& value) { return value == "none" || value == "STATIC_PLUGIN"; }

// Sets variables that are not set, and those of other tools if the client can be loaded before them.
class Environment {
 public:
  void Set(const Variable& variable, const std::string& value) {
    const char* old = std::getenv(variable.name);
    if (old == nullptr || old[0] == '\0' || (value != old && IsOurClient(old))) {
      ::setenv(variable.name, value.c_str(), 1);
      set_.push_back(variable.name);
    } else if (value == old) {
      return;
    } else if (variable.chain != nullptr && !NamesNoLibrary(old)) {
      PrintMessage(absl::StrCat(variable.name, " was ", old,
                                ": Lockstep replaces it and passes every call on to it (", variable.chain,
                                ")"));
      ::setenv(variable.chain, old, 1);
      ::setenv(variable.name, value.c_str(), 1);
      set_.push_back(variable.name);
      set_.push_back(variable.chain);
    } else {
      PrintMessage(absl::StrCat(variable.name, " is already set (", old,
                                ") and unchanged: ", variable.missing, " will be missing"));
    }
  }
  const std::vector<std::string>& set() const { return set_; }

 private:
  std::vector<std::string> set_;
};

// Returns true if a socket with exactly this path is bound on this machine. Uses the kernel's list: libkineto
// compares paths as text and ends the process if they differ. A folder that is reached through a link must
// therefore not be passed on.
bool IsBound(const std::string& path) {
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    if (absl::EndsWith(line, absl::StrCat(" ", path))) return true;
  }
  return false;
}

// Makes PyTorch's on-demand tracing ask this user's daemon, even if another process holds dynolog's name on
// the node. Does nothing if the user has set the variable.
void PointKineto(const std::string& client_socket) {
  const std::string folder = KinetoFolderOf(client_socket);
  if (std::getenv(kKinetoFolderVariable) != nullptr || folder[0] != '/' ||
      folder.size() > kLongestKinetoFolder || !IsBound(absl::StrCat(folder, "/", kKinetoSocketName))) {
    return;
  }
  ::setenv(kKinetoFolderVariable, folder.c_str(), 1);
}

void Preload(const std::string& library) {
  const char* old = std::getenv("LD_PRELOAD");
  std::vector<std::string> all = {library};
  const std::vector<std::string> others =
      absl::StrSplit(old == nullptr ? "" : old, absl::ByAnyChar(": "), absl::SkipEmpty());
  for (const std::string& other : others) {
    if (!IsOurClient(other)) all.push_back(other);
  }
  ::setenv("LD_PRELOAD", absl::StrJoin(all, ":").c_str(), 1);
}

// With the variable, each `import torch` calls cuInit. Devices that the program hides later then count
// nevertheless, and children that it forks cannot use CUDA. So only a user may ask for it.
void SetKineto(const std::string& mode, Environment& environment, const std::string& client_socket) {
  if (const char* old = std::getenv(kKineto); old == nullptr) {
    if (mode != "kineto") return;
    environment.Set({kKineto, "captures through PyTorch's own profiler", nullptr}, "1");
    PointKineto(client_socket);
  } else if (std::getenv(kKinetoFolderVariable) == nullptr) {
    PrintMessage(absl::StrCat(kKineto, " is already set (", old,
                              ") and unchanged: PyTorch's own profiler asks the owner of dynolog's socket"));
  }
}

// The search already used an existing value. Ranks on this node must not search again and find another
// daemon.
void SetSocket(const std::string& client_socket, const RunFlags& flags) {
  const char* old = std::getenv(kSocket);
  std::error_code error;
  if (old != nullptr && old[0] != '\0' && std::filesystem::absolute(old, error) != client_socket) {
    PrintMessage(absl::StrCat(kSocket, " was ", old,
                              flags.daemon.empty() ? ", where no daemon answers" : "; --daemon replaces it"));
  }
  ::setenv(kSocket, client_socket.c_str(), 1);
}

// Returns true unless a launcher has given this process a rank above 0. One rank reports for the whole job.
bool ReportsForTheJob() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    const char* rank = std::getenv(variable);
    if (rank != nullptr && rank[0] != '\0') return std::string_view(rank) == "0";
  }
  return true;
}

// Errors are printed, but the command still runs.
void Prepare(const RunFlags& flags) {
  const Installation installation = Installation::OfThisProgram();
  auto library = installation.ClientLibrary();
  if (!library.ok()) {
    PrintMessage(absl::StrCat(library.status().message(), "; the command runs without Lockstep"));
    return;
  }
  const DaemonFinder finder(flags.daemon);
  // A launcher's plugin only asks for the environment and cannot wait; at such sites the administrator runs
  // the daemon.
  const JobAggregator aggregator = JobAggregator::OfEnvironment();
  aggregator.BeginDaemonStart();
  auto daemon = flags.print_environment ? finder.Find() : finder.FindOrStart(installation, kReadyWithin);
  aggregator.EndDaemonStart();
  if (!daemon.ok()) {
    PrintMessage(absl::StrCat(daemon.status().message(), "; the command runs without Lockstep"));
    return;
  }
  if (absl::Status s = aggregator.HandTo(*daemon); !s.ok()) {
    PrintMessage(absl::StrCat("the daemon at ", daemon->client_socket,
                              " did not accept the job's aggregator: ", s.message()));
  }
  Environment environment;
  const bool cupti = flags.mode != "nccl";
  if (!cupti) ::setenv(kProgress, "1", 0);
  if (cupti) environment.Set(flags.preload ? kCudaWithPreload : kCuda, *library);
  environment.Set(kNvtx, *library);
  if (library->size() <= kLongestNcclPlugin)
    environment.Set(kNccl, *library);
  else
    PrintMessage(absl::StrCat("NCCL cuts paths of plugins at ", kLongestNcclPlugin, " characters, and ",
                              *library, " has ", library->size(), ": ", kNccl.missing,
                              " will be missing; install Lockstep in another folder"));
  if (flags.mode == "auto" || flags.mode == "kineto")
    SetKineto(flags.mode, environment, daemon->client_socket);
  const char* socket = std::getenv(kSocket);
  const bool found_socket = socket != nullptr && daemon->client_socket == socket;
  SetSocket(daemon->client_socket, flags);
  if (flags.preload) Preload(*library);
  std::vector<std::string> names = environment.set();
  // In a step, the batch script has already printed this message.
  if (flags.print_environment && names.empty() && found_socket) return;
  names.push_back(kSocket);
  if (flags.preload) names.push_back("LD_PRELOAD");
  if (ReportsForTheJob())
    PrintMessage(absl::StrCat("set ", absl::StrJoin(names, ", "), "; daemon at ", daemon->client_socket));
}

ExitCode Exec(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  const int error = errno;
  PrintMessage(absl::StrCat("cannot run ", command[0], ": ", std::strerror(error)));
  // Shells use the same exit codes.
  std::_Exit(error == ENOENT ? 127 : 126);
}

std::map<std::string, std::string> Variables() {
  std::map<std::string, std::string> variables;
  for (char** v = environ; *v != nullptr; ++v) {
    const std::string line = *v;
    const size_t equals = line.find('=');
    if (equals != std::string::npos) variables.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return variables;
}

// Prints the format that Slurm reads from a TaskProlog: the value extends to the end of the line, unquoted.
ExitCode PrintEnvironment(const RunFlags& flags) {
  const std::map<std::string, std::string> before = Variables();
  Prepare(flags);
  for (const auto& [name, value] : Variables()) {
    const auto old = before.find(name);
    if (old != before.end() && old->second == value) continue;
    if (value.find('\n') != std::string::npos) {
      PrintMessage(
          absl::StrCat(name, " contains a line break, which cannot be passed on: it stays unchanged"));
      continue;
    }
    std::printf("export %s=%s\n", name.c_str(), value.c_str());
  }
  return ExitCode::kDone;
}

ExitCode Run(const RunFlags& flags, const Chosen& chosen) {
  if (flags.print_environment && !chosen.has_command && !flags.with_aggregator)
    return PrintEnvironment(flags);
  if (flags.print_environment)
    return Fail(ExitCode::kUsage, "--print-environment runs no command and starts no aggregator");
  if (!chosen.has_command || chosen.command.empty()) {
    return Fail(ExitCode::kUsage, "run needs the command after --, as in: lockstep run -- python train.py");
  }
  if (flags.with_aggregator) {
    if (absl::Status s = StartLauncherAggregator(Installation::OfThisProgram(), kReadyWithin); !s.ok()) {
      PrintMessage(
          absl::StrCat("no aggregator was started: ", s.message(), "; captures are limited to one node"));
    }
  }
  AdoptFromLauncher();
  Prepare(flags);
  return Exec(chosen.command);
}

}  // namespace

void AddRun(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "run", kRunAbout);
  auto flags = std::make_shared<RunFlags>();
  sub->add_option("--mode", flags->mode,
                  "Instrumentation to inject: auto, cupti (the same, and a variable of PyTorch's profiler "
                  "is not looked at), nccl (no CUPTI; ranks keep their progress for `lockstep hang`) or "
                  "kineto (PyTorch's profiler too; each `import torch` "
                  "then initialises CUDA)")
      ->check(CLI::IsMember({"auto", "cupti", "nccl", "kineto"}))
      ->capture_default_str();
  sub->add_option("--daemon", flags->daemon, "Client socket of the daemon")->type_name(kSocketValue);
  sub->add_flag("--preload", flags->preload,
                "Use LD_PRELOAD too, for programs whose CUDA does not read its injection variable");
  sub->add_flag("--with-aggregator", flags->with_aggregator,
                "Start an aggregator that ends with the command, and pass its address and token file to "
                "the command");
  sub->add_flag("--print-environment", flags->print_environment,
                "Run nothing: print the variables as `export NAME=VALUE` lines for Slurm's TaskProlog. "
                "No daemon is started");
  sub->callback([flags, &chosen] { chosen.action = [flags, &chosen] { return Run(*flags, chosen); }; });
}

}  // namespace lockstep::cli
