#include "aggregator/aggregator_main.h"

#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "aggregator/aggregator_options.h"
#include "aggregator/reports/child_analyst.h"
#include "aggregator/server.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/files/open_file_limit.h"
#include "base/log/log.h"
#include "base/rpc/channel.h"
#include "base/service_manager.h"
#include "base/settings/log_options.h"

namespace lockstep::aggregator {
namespace {

constexpr char kProgram[] = "lockstep-aggregator";
constexpr int kDone = 0, kFailed = 1, kUsage = 2;

// Blocks the signals before any thread starts, so that only sigwait receives them.
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
      // Kernels before 5.3 have no pidfd_open.
      while (::kill(pid, 0) == 0 || errno == EPERM) ::usleep(200'000);
    }
    ::kill(::getpid(), SIGTERM);
  }).detach();
}

// Prints the error as a sentence, or as a log line if the log is JSON, because programs read that.
int Fail(const LogSink& log, LogFormat format, const absl::Status& status, int code) {
  if (format == LogFormat::kJson) {
    log(LogLevel::kError, "start_failed", {{"reason", status.message()}});
  } else {
    std::fprintf(stderr, "lockstep-aggregator: %s\n", std::string(status.message()).c_str());
  }
  return code;
}

// Reports on stdout, for scripts, that the server is ready and its addresses. Omitted if the log is JSON,
// which must not be mixed with other lines.
void PrintAddresses(const Server& server, const LogSink& log, LogFormat format) {
  const auto announce = [&](const char* event, const char* words, const std::string& address) {
    log(LogLevel::kInfo, event, {{"address", address}});
    if (format == LogFormat::kText) std::printf("%s on %s\n", words, address.c_str());
  };
  for (const std::string& address : server.addresses()) announce("listening", "listening", address);
  if (const std::string http = server.http_address(); !http.empty()) {
    announce("metrics", "metrics", http);
    announce("pages", "pages", "http://" + http + "/");
  }
  std::fflush(stdout);
}

ServerOptions ToServer(const AggregatorOptions& options, const LogSink& log) {
  ServerOptions out;
  out.listen = options.listen;
  out.security.tls_dir = options.tls_dir;
  out.roles = options.roles;
  if (options.plaintext) out.security.plaintext = rpc::SecuritySettings::Plaintext::kYes;
  out.state_dir = options.state_dir;
  out.http = options.http;
  out.retention = options.retention;
  out.analyst = std::make_shared<ChildAnalyst>(ChildAnalystOptions{
      .program = OwnProgram(kProgram), .version = kProgramVersion, .limits = options.analysis, .log = log});
  out.audit_file = options.audit_file;
  if (options.audit_syslog) out.audit_copy = AuditCopy::kSyslog;
  out.limits.store = options.store;
  out.hang_after = options.hang_after;
  out.alarm_captures = options.alarm_captures;
  out.alarm_steps = options.alarm_steps;
  out.alarm_command = options.alarm_command;
  out.log = log;
  if (options.munge || !options.munge_socket.empty()) {
    out.credentials =
        std::make_shared<rpc::MungePrograms>(rpc::MungePrograms::Settings{.socket = options.munge_socket});
  }
  return out;
}

int Serve(const AggregatorOptions& options, const LogSink& log, const sigset_t& signals) {
  const LogFormat format = options.log.format();
  ServerOptions server_options = ToServer(options, log);
  if (!options.token_file.empty()) {
    auto token = rpc::Token::LoadOrCreate(options.token_file);
    if (!token.ok()) return Fail(log, format, token.status(), kUsage);
    server_options.security.token = *std::move(token);
  }
  auto server = Server::Start(std::move(server_options));
  if (!server.ok()) {
    const bool usage = server.status().code() == absl::StatusCode::kInvalidArgument ||
                       server.status().code() == absl::StatusCode::kFailedPrecondition;
    return Fail(log, format, server.status(), usage ? kUsage : kFailed);
  }
  PrintAddresses(**server, log, format);
  if (options.until_exit > 0) EndWith(options.until_exit);
  const char* manager = std::getenv(kServiceManagerVariable);
  NotifyServiceManager(manager, kServiceReady);
  if (const std::optional<Nanos> period =
          WatchdogPeriod(std::getenv(kWatchdogTimeVariable), std::getenv(kWatchdogPidVariable), ::getpid()))
    (*server)->Every(*period, [manager] { NotifyServiceManager(manager, kServiceAlive); });
  int signal = 0;
  ::sigwait(&signals, &signal);
  NotifyServiceManager(manager, kServiceStopping);
  log(LogLevel::kInfo, "stopping", {});
  (*server)->Shutdown();
  if (options.until_exit > 0 && !options.token_file.empty()) std::remove(options.token_file.c_str());
  log(LogLevel::kInfo, "stopped", {});
  return kDone;
}

}  // namespace

int AggregatorMain(int argc, char** argv, char** environment) {
  int exit_code = kDone;
  const std::optional<AggregatorOptions> options =
      ParseAggregatorOptions(argc, argv, environment, &exit_code);
  if (!options) return exit_code;
  const sigset_t signals = BlockEndSignals();
  RaiseOpenFileLimit();  // each daemon and each caller needs one
  rpc::PrepareProcess();
  const absl::StatusOr<Fd> file = settings::OpenLog(options->log.file);
  if (!file.ok()) return Fail(&LogNothing, LogFormat::kText, file.status(), kUsage);
  const SystemClock clock;
  Log log(file->ok() ? file->get() : STDERR_FILENO, options->log.level(), clock, options->log.format());
  LogSink sink = &LogNothing;
  if (!options->quiet) {
    sink = [&log](LogLevel level, const char* event, std::initializer_list<LogField> fields) {
      log.Write(level, event, fields);
    };
  }
  return Serve(*options, sink, signals);
}

}  // namespace lockstep::aggregator
