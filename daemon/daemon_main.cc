#include "daemon/daemon_main.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>

#include "base/fd.h"
#include "base/files/open_file_limit.h"
#include "base/rpc/channel.h"
#include "base/service_manager.h"
#include "base/settings/log_options.h"
#include "daemon/daemon.h"
#include "daemon/options.h"

namespace lockstep::daemon {
namespace {

constexpr int kFailed = 1;

int Fail(const char* what) {
  std::fprintf(stderr, "lockstepd: %s\n", what);
  return kFailed;
}

// Waits for the signals that end the daemon, on a separate thread. The signals are blocked in all threads,
// because these start later.
class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&set_);
    for (int signal : {SIGTERM, SIGINT, kLeave}) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGHUP, SIG_IGN);  // the daemon has no terminal
  }
  void Watch(Daemon& daemon) {
    thread_ = std::thread([this, &daemon] {
      int signal = 0;
      while (sigwait(&set_, &signal) == 0 && signal != kLeave) daemon.Stop();
    });
  }
  void Leave() {
    if (!thread_.joinable()) return;
    pthread_kill(thread_.native_handle(), kLeave);
    thread_.join();
  }

 private:
  static constexpr int kLeave = SIGUSR1;
  sigset_t set_;
  std::thread thread_;
};

}  // namespace

int DaemonMain(int argc, char** argv, char** environment) {
  int exit_code = 0;
  const std::optional<Options> options = ParseOptions(argc, argv, environment, &exit_code);
  if (!options) return exit_code;
  EndSignals signals;
  rpc::PrepareProcess();
  RaiseOpenFileLimit();  // each client needs three descriptors
  umask(077);

  const absl::StatusOr<Fd> log_file = settings::OpenLog(options->log_file);
  if (!log_file.ok()) return Fail(std::string(log_file.status().message()).c_str());
  const SystemClock clock;
  const ProcFs processes;
  Log log(log_file->ok() ? log_file->get() : STDERR_FILENO, options->log_level, clock, options->log_format);
  auto daemon = Daemon::Create(*options, clock, processes, log);
  if (!daemon.ok()) {
    // Readers of the JSON log find the error there.
    if (options->log_format == LogFormat::kText) return Fail(std::string(daemon.status().message()).c_str());
    log.Error("start_failed", {{"reason", daemon.status().message()}});
    return kFailed;
  }
  signals.Watch(**daemon);
  // The sockets are open, so services that depend on this one may start.
  const char* manager = std::getenv(kServiceManagerVariable);
  NotifyServiceManager(manager, kServiceReady);
  if (const std::optional<Nanos> period =
          WatchdogPeriod(std::getenv(kWatchdogTimeVariable), std::getenv(kWatchdogPidVariable), getpid()))
    (*daemon)->Every(*period, [manager] { NotifyServiceManager(manager, kServiceAlive); });
  (*daemon)->Run();
  NotifyServiceManager(manager, kServiceStopping);
  signals.Leave();
  return 0;
}

}  // namespace lockstep::daemon
