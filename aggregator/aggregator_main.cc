#include "aggregator/aggregator_main.h"

#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "aggregator/server.h"
#include "common/base/fd.h"
#include "common/base/service_manager.h"
#include "common/rpc/channel.h"
#include "common/settings/settings.h"

namespace lockstep {
namespace {

constexpr int kDone = 0, kFailed = 1, kUsage = 2;

constexpr char kAbout[] =
    "lockstep-aggregator receives what the daemons of a job's nodes capture, analyses it and keeps it.\n"
    "\n"
    "Examples:\n"
    "  lockstep-aggregator --listen 0.0.0.0:7077 --token-file ~/.lockstep-token\n"
    "      for a cluster: give every lockstepd --aggregator THISHOST:7077 and the same token file, then\n"
    "      lockstep trace --aggregator THISHOST:7077 --token-file ~/.lockstep-token --duration 2s\n"
    "  lockstep-aggregator --listen 0.0.0.0:7077 --token-file /etc/lockstep/token --munge\n"
    "      for a Slurm cluster: everybody traces their own jobs, by lockstep trace --aggregator THISHOST:7077 --job ID\n"
    "  lockstep-aggregator --listen unix:$XDG_RUNTIME_DIR/lockstep/aggregator.sock\n"
    "      for one node: no token is needed where only you can enter the folder\n";

// A service's folder is where its unit has it (StateDirectory=); systemd names several with colons between.
std::string ServiceStateDir() {
  const char* folders = std::getenv("STATE_DIRECTORY");
  if (folders == nullptr || folders[0] != '/') return DefaultStateDir();
  return std::string(folders, std::strcspn(folders, ":"));
}

struct Flags {
  std::vector<std::string> listen;
  std::string token_file;
  std::string http;
  std::string state_dir = ServiceStateDir();
  size_t keep_captures = Retention().captures;
  uint64_t keep_bytes = Retention().bytes;
  bool munge = false;
  std::string munge_socket;
  int until_exit = 0;
  bool quiet = false;
};

void AddFlags(CLI::App& app, Flags& flags) {
  app.add_option("--listen", flags.listen,
                 "HOST:PORT (port 0: any free one) or unix:PATH, as often as wanted. A TCP port needs "
                 "--token-file, since every "
                 "user of the machine can reach it; a socket's folder must be closed to others")
      ->required();
  app.add_option("--token-file", flags.token_file,
                 "The secret that opens the TCP port and that of --http; made, mode 0600, where it is missing");
  app.add_option("--http,--metrics", flags.http,
                 "IP:PORT for browsers (an index of jobs and captures, and the captures' reports, read-only), Prometheus (/metrics) and "
                 "health checks (/healthz), as in 127.0.0.1:9465; port 0: any free one. All of it only for those who have the token, so it "
                 "needs --token-file. Off by default");
  app.add_flag("--munge", flags.munge,
               "Know callers by MUNGE as well: each user of the cluster sees and captures their own jobs, without a token file. "
               "Daemons still need the token");
  app.add_option("--munge-socket", flags.munge_socket, "munged's socket; default: where munge has it");
  app.add_option("--state-dir", flags.state_dir, "Where captures are kept. Without it $STATE_DIRECTORY, which systemd sets, or lockstep in $XDG_STATE_HOME; else /var/lib/lockstep "
                 "for root and ~/.local/state/lockstep for others");
  app.add_option("--keep-captures", flags.keep_captures, "Captures to keep; the oldest go first")
      ->capture_default_str();
  app.add_option("--keep-bytes", flags.keep_bytes, "Bytes of captures to keep; the oldest go first")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("20 GiB");
  app.add_option("--until-exit", flags.until_exit, "End when the process with this pid does, and remove the token file")->configurable(false);
  app.add_flag("--quiet", flags.quiet, "Log nothing on stderr");
  app.set_version_flag("--version", "lockstep-aggregator " LOCKSTEP_VERSION);
}

// Blocked before any thread starts, so that they reach sigwait and nobody else.
sigset_t BlockEndSignals() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGTERM);
  ::sigaddset(&set, SIGINT);
  ::sigaddset(&set, SIGHUP);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return set;
}

// Sends this process SIGTERM when `pid` has ended.
void EndWith(pid_t pid) {
  std::thread([pid] {
    const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (process.ok()) {
      pollfd poll = {process.get(), POLLIN, 0};
      while (::poll(&poll, 1, -1) < 0 && errno == EINTR) {
      }
    } else if (errno == ENOSYS) {
      // Kernels before 5.3.
      while (::kill(pid, 0) == 0 || errno == EPERM) ::usleep(200'000);
    }
    ::kill(::getpid(), SIGTERM);
  }).detach();
}

int Fail(const absl::Status& status, int code) {
  std::fprintf(stderr, "lockstep-aggregator: %s\n", std::string(status.message()).c_str());
  return code;
}

}  // namespace

int AggregatorMain(int argc, char** argv, char** environment) {
  CLI::App app(kAbout);
  Flags flags;
  AddFlags(app, flags);
  settings::Settings settings(app,
                              {.name = "lockstep-aggregator",
                               .version = "lockstep-aggregator " LOCKSTEP_VERSION,
                               .prefix = "LOCKSTEP_AGGREGATOR_",
                               .file_name = "aggregator.conf",
                               .defaults_here = {{"state-dir", flags.state_dir}}},
                              environment);
  if (const std::optional<int> code = settings.Parse(argc, argv)) return *code;
  const sigset_t signals = BlockEndSignals();
  rpc::PrepareProcess();
  ServerOptions options;
  options.listen = flags.listen;
  options.state_dir = flags.state_dir;
  options.http = flags.http;
  options.retention = {flags.keep_captures, flags.keep_bytes};
  if (!flags.quiet) {
    options.log = [](const std::string& line) {
      std::fprintf(stderr, "lockstep-aggregator: %s\n", line.c_str());
    };
  }
  if (!flags.token_file.empty()) {
    auto token = rpc::Token::LoadOrCreate(flags.token_file);
    if (!token.ok()) return Fail(token.status(), kUsage);
    options.token = *std::move(token);
  }
  if (flags.munge || !flags.munge_socket.empty()) {
    options.credentials = std::make_shared<rpc::MungePrograms>(rpc::MungePrograms::Settings{.socket = flags.munge_socket});
  }
  auto server = Server::Start(std::move(options));
  if (!server.ok()) {
    const bool usage = server.status().code() == absl::StatusCode::kInvalidArgument ||
                       server.status().code() == absl::StatusCode::kFailedPrecondition;
    return Fail(server.status(), usage ? kUsage : kFailed);
  }
  // For scripts: the line says that it is ready, and where.
  for (const std::string& address : (*server)->addresses()) std::printf("listening on %s\n", address.c_str());
  if (const std::string http = (*server)->http_address(); !http.empty()) {
    std::printf("metrics on %s\n", http.c_str());
    std::printf("pages on http://%s/\n", http.c_str());
  }
  std::fflush(stdout);
  if (flags.until_exit > 0) EndWith(flags.until_exit);
  const char* manager = std::getenv(kServiceManagerVariable);
  TellServiceManager(manager, kServiceReady);
  int signal = 0;
  ::sigwait(&signals, &signal);
  TellServiceManager(manager, kServiceStopping);
  (*server)->Shutdown();
  if (flags.until_exit > 0 && !flags.token_file.empty()) std::remove(flags.token_file.c_str());
  return kDone;
}

}  // namespace lockstep
