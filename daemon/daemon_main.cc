#include "daemon/daemon_main.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/fd.h"
#include "base/files/open_file_limit.h"
#include "base/rpc/channel.h"
#include "base/rpc/status_macros.h"
#include "base/service_manager.h"
#include "base/settings/log_options.h"
#include "daemon/broker/privileges.h"
#include "daemon/broker/split.h"
#include "daemon/broker_program.h"
#include "daemon/daemon.h"
#include "daemon/daemon_resources.h"
#include "daemon/node/own_access.h"
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

// Root's daemon becomes two processes, unless its broker is a service. A container may have a root that
// cannot change its user; its daemon stays one process.
absl::StatusOr<DaemonSockets> OpenSocketsAndSplit(const Options& options, SplitDaemon& split, Log& log) {
  if (split.access != nullptr) return ReceiveDaemonSockets(options, *split.access);
  LOCKSTEP_ASSIGN_OR_RETURN(DaemonSockets sockets, OpenDaemonSockets(options, AbstractName::kYes));
  if (geteuid() == 0 && MayChangeUser()) {
    LOCKSTEP_ASSIGN_OR_RETURN(split, Split(BrokerSettingsOf(options, sockets)));
  } else if (geteuid() == 0) {
    log.Warning("privileges_kept", {{"reason", "the process has not CAP_SETUID and CAP_SETGID"}});
  }
  return sockets;
}

// `broker` is null unless it is a service.
absl::StatusOr<Fd> OpenLogFile(const Options& options, const BrokerAccess* broker) {
  if (broker == nullptr || options.log_file.empty()) return settings::OpenLog(options.log_file);
  Fd file = broker->OpenToAppend(options.log_file);
  if (!file.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open log file ", options.log_file));
  return file;
}

absl::Status Serve(Options options, DaemonSockets sockets, SplitDaemon& split, const Clock& clock, Log& log,
                   EndSignals& signals) {
  std::shared_ptr<const HostAccess> access = split.access;
  if (access == nullptr) access = std::make_shared<OwnAccess>();
  LOCKSTEP_ASSIGN_OR_RETURN(DaemonResources resources,
                            OpenDaemonResources(options, std::move(sockets), access, log));
  if (split.broker > 0) {
    LOCKSTEP_RETURN_IF_ERROR(BecomeUnprivileged(*split.access));
    log.Info("privileges", {{"uid", geteuid()}, {"broker", split.broker}});
  }
  rpc::PrepareProcess();
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<Daemon> daemon,
                            Daemon::Create(std::move(options), std::move(resources), clock, log));
  if (split.access != nullptr) LOCKSTEP_RETURN_IF_ERROR(daemon->EndWith(*split.access));
  signals.Watch(*daemon);
  // The sockets are open, so services that depend on this one may start.
  const char* manager = std::getenv(kServiceManagerVariable);
  NotifyServiceManager(manager, kServiceReady);
  if (const std::optional<Nanos> period =
          WatchdogPeriod(std::getenv(kWatchdogTimeVariable), std::getenv(kWatchdogPidVariable), getpid()))
    daemon->Every(*period, [manager] { NotifyServiceManager(manager, kServiceAlive); });
  daemon->Run();
  NotifyServiceManager(manager, kServiceStopping);
  signals.Leave();
  return daemon->ended_with_broker() ? absl::UnavailableError("the privileged part of the daemon has ended")
                                     : absl::OkStatus();
}

}  // namespace

int DaemonMain(int argc, char** argv, char** environment) {
  int exit_code = 0;
  std::optional<Options> options = ParseOptions(argc, argv, environment, &exit_code);
  if (!options) return exit_code;
  EndSignals signals;
  RaiseOpenFileLimit();  // each client needs three descriptors
  umask(077);

  SplitDaemon split;
  if (options->with_broker) {
    absl::StatusOr<std::shared_ptr<BrokerAccess>> access = ConnectToBroker(*options);
    if (!access.ok()) return Fail(std::string(access.status().message()).c_str());
    split.access = *std::move(access);
  }
  const absl::StatusOr<Fd> log_file = OpenLogFile(*options, split.access.get());
  if (!log_file.ok()) return Fail(std::string(log_file.status().message()).c_str());
  const SystemClock clock;
  Log log(log_file->ok() ? log_file->get() : STDERR_FILENO, options->log_level, clock, options->log_format);
  const auto fail = [&](const absl::Status& why) {
    // Readers of the JSON log find the error there.
    if (options->log_format == LogFormat::kText) return Fail(std::string(why.message()).c_str());
    log.Error("start_failed", {{"reason", why.message()}});
    return kFailed;
  };
  if (!options->broker_for.empty()) {
    const absl::Status ran = RunBrokerService(*options, log);
    return ran.ok() ? 0 : fail(ran);
  }
  absl::StatusOr<DaemonSockets> sockets = OpenSocketsAndSplit(*options, split, log);
  if (!sockets.ok()) return fail(sockets.status());
  // The broker removes the sockets' files, for which the daemon has no right.
  if (split.broker == 0) return 0;
  const absl::Status served = Serve(*std::move(options), *std::move(sockets), split, clock, log, signals);
  split.access.reset();
  if (split.broker > 0) WaitForBroker(split.broker);
  return served.ok() ? 0 : fail(served);
}

}  // namespace lockstep::daemon
