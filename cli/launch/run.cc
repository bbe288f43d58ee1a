// lockstep run: puts the client into a command by environment alone, and becomes that command.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
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

constexpr char kAbout[] =
    "Run a command so that Lockstep can capture it: each GPU process it starts meets the daemon of its "
    "node.\n"
    "\n"
    "Only environment variables are set. Where one names another tool already, NVTX's and NCCL's are handed "
    "on to "
    "it and the\n"
    "others are left alone and named. The command keeps the pid, the\n"
    "signals, the standard streams and the exit code. Where no daemon answers, one is started, which ends by "
    "itself 10 s\n"
    "after its last process. Without one the command runs as if Lockstep were not there.\n"
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
  const char* missing;  // what is not captured where somebody else has set it
  // The client loads what was set before, by this variable, and hands it every call; null: it cannot.
  const char* chain;
};
constexpr Variable kCuda = {kCudaInjection, "GPU kernels, copies and CUDA calls", nullptr};
constexpr Variable kNvtx = {kNvtxInjection, "NVTX ranges and steps", "LOCKSTEP_NVTX_CHAIN"};
constexpr Variable kNccl = {kNcclPlugin, "which collective a kernel belongs to", "LOCKSTEP_NCCL_CHAIN"};
// CUDA loads the other's tool; the client is in the process all the same.
constexpr Variable kCudaWithPreload = {
    kCudaInjection, "what comes before NCCL's first communicator, where the preloaded client starts,",
    nullptr};
constexpr char kKineto[] = "KINETO_USE_DAEMON";
constexpr char kSocket[] = "LOCKSTEP_SOCKET";

// Of this or another installation: an outer `lockstep run` has set it, maybe outside of this container.
bool IsOurClient(const std::string& path) { return absl::EndsWith(path, kClientLibraryInFolder); }

// Words of NCCL's for no library.
bool NamesNoLibrary(const std::string& value) { return value == "none" || value == "STATIC_PLUGIN"; }

// Sets what is not set, and what another tool has set where the client can go before it.
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
      Say(absl::StrCat(variable.name, " was ", old, ": Lockstep goes before it and hands it every call (",
                       variable.chain, ")"));
      ::setenv(variable.chain, old, 1);
      ::setenv(variable.name, value.c_str(), 1);
      set_.push_back(variable.name);
      set_.push_back(variable.chain);
    } else {
      Say(absl::StrCat(variable.name, " is set already (", old, ") and left alone: ", variable.missing,
                       " will be missing"));
    }
  }
  const std::vector<std::string>& set() const { return set_; }

 private:
  std::vector<std::string> set_;
};

// Is a socket with exactly this path bound on this machine? By the kernel's list, since libkineto compares
// paths letter by letter and ends the process where they differ: a folder reached over a link must not be
// handed on.
bool IsBound(const std::string& path) {
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    if (absl::EndsWith(line, absl::StrCat(" ", path))) return true;
  }
  return false;
}

// PyTorch's on-demand tracing is to ask this user's daemon, whoever else has dynolog's name on the node. Left
// alone where somebody has chosen for themselves.
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

void SetKineto(Environment& environment, const std::string& client_socket) {
  if (const char* old = std::getenv(kKineto); old == nullptr) {
    environment.Set({kKineto, "captures through PyTorch's own profiler", nullptr}, "1");
    PointKineto(client_socket);
  } else if (std::getenv(kKinetoFolderVariable) == nullptr) {
    Say(absl::StrCat(kKineto, " is set already (", old,
                     ") and left alone: PyTorch's own profiler asks whoever has dynolog's socket"));
  }
}

// The search has honoured a value that was set; ranks on this node must not search again and find another.
void SetSocket(const std::string& client_socket, const RunFlags& flags) {
  const char* old = std::getenv(kSocket);
  std::error_code error;
  if (old != nullptr && old[0] != '\0' && std::filesystem::absolute(old, error) != client_socket) {
    Say(absl::StrCat(kSocket, " was ", old,
                     flags.daemon.empty() ? ", where no daemon answers" : "; --daemon goes before it"));
  }
  ::setenv(kSocket, client_socket.c_str(), 1);
}

// What goes wrong here is told, and costs the command nothing.
void Prepare(const RunFlags& flags) {
  const Siblings siblings = Siblings::OfThisProgram();
  auto library = siblings.ClientLibrary();
  if (!library.ok()) {
    Say(absl::StrCat(library.status().message(), "; the command runs without Lockstep"));
    return;
  }
  const DaemonFinder finder(flags.daemon);
  // Who only asks is a launcher's plugin, which cannot wait; there the site runs the daemon.
  const JobAggregator aggregator = JobAggregator::OfEnvironment();
  aggregator.BeginDaemonStart();
  auto daemon = flags.print_environment ? finder.Find() : finder.FindOrStart(siblings, kReadyWithin);
  aggregator.EndDaemonStart();
  if (!daemon.ok()) {
    Say(absl::StrCat(daemon.status().message(), "; the command runs without Lockstep"));
    return;
  }
  if (absl::Status s = aggregator.HandTo(*daemon); !s.ok()) {
    Say(absl::StrCat("the daemon at ", daemon->client_socket,
                     " did not take the job's aggregator on: ", s.message()));
  }
  Environment environment;
  const bool cupti = flags.mode != "nccl";
  if (cupti) environment.Set(flags.preload ? kCudaWithPreload : kCuda, *library);
  environment.Set(kNvtx, *library);
  environment.Set(kNccl, *library);
  if (flags.mode == "auto") SetKineto(environment, daemon->client_socket);
  const char* socket = std::getenv(kSocket);
  const bool found_socket = socket != nullptr && daemon->client_socket == socket;
  SetSocket(daemon->client_socket, flags);
  if (flags.preload) Preload(*library);
  std::vector<std::string> names = environment.set();
  // In a step whose batch script has had it said, once is enough.
  if (flags.print_environment && names.empty() && found_socket) return;
  names.push_back(kSocket);
  if (flags.preload) names.push_back("LD_PRELOAD");
  Say(absl::StrCat("set ", absl::StrJoin(names, ", "), "; daemon at ", daemon->client_socket));
}

ExitCode Exec(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  const int error = errno;
  Say(absl::StrCat("cannot run ", command[0], ": ", std::strerror(error)));
  // As every shell says it.
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

// As Slurm reads it from a TaskProlog: a value goes to the line's end, unquoted.
ExitCode PrintEnvironment(const RunFlags& flags) {
  const std::map<std::string, std::string> before = Variables();
  Prepare(flags);
  for (const auto& [name, value] : Variables()) {
    const auto old = before.find(name);
    if (old != before.end() && old->second == value) continue;
    if (value.find('\n') != std::string::npos) {
      Say(absl::StrCat(name, " holds a line break, which cannot be handed on: it stays as it was"));
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
    if (absl::Status s = StartLauncherAggregator(Siblings::OfThisProgram(), kReadyWithin); !s.ok()) {
      Say(absl::StrCat("no aggregator was started: ", s.message(), "; captures are limited to one node"));
    }
  }
  AdoptFromLauncher();
  Prepare(flags);
  return Exec(chosen.command);
}

}  // namespace

void AddRun(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "run", kAbout);
  auto flags = std::make_shared<RunFlags>();
  sub->add_option("--mode", flags->mode, "What is put in: auto, cupti (no Kineto) or nccl (no CUPTI)")
      ->check(CLI::IsMember({"auto", "cupti", "nccl"}))
      ->capture_default_str();
  sub->add_option("--daemon", flags->daemon, "The daemon's client socket");
  sub->add_flag("--preload", flags->preload,
                "Use LD_PRELOAD too, for programs whose CUDA does not read its injection variable");
  sub->add_flag("--with-aggregator", flags->with_aggregator,
                "Start an aggregator for the length of the command and hand its address and token file to "
                "what it starts");
  sub->add_flag("--print-environment", flags->print_environment,
                "Run nothing: print what would be set as `export NAME=VALUE` lines, as Slurm's TaskProlog "
                "hands it to a task. "
                "No daemon is started");
  sub->callback([flags, &chosen] { chosen.action = [flags, &chosen] { return Run(*flags, chosen); }; });
}

}  // namespace lockstep::cli
