#include "daemon/daemon.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/kineto_folder.h"
#include "base/log/clean_text.h"
#include "base/random_number.h"
#include "base/rpc/status_macros.h"
#include "base/tls/tls_folder.h"
#include "daemon/node/process.h"
#include "daemon/node/socket.h"
#include "daemon/node/version.h"

namespace lockstep::daemon {
namespace {

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

std::string AbsolutePath(const std::string& path) {
  std::error_code error;
  return std::filesystem::absolute(path, error).string();
}

ClientServerOptions MakeClientOptions(const Options& options, uid_t owner) {
  ClientServerOptions client;
  client.owner = owner;
  client.segment.main_ring_bytes = options.ring_bytes;
  client.segment.thread_ring_bytes = options.thread_ring_bytes;
  return client;
}

// The certificate binds the daemon to a node.
absl::Status TakeNodeOfCertificate(Options& options) {
  if (options.tls_dir.empty()) return absl::OkStatus();
  const tls::TlsFolder folder(options.tls_dir, std::make_shared<SystemClock>(), &LogNothing);
  if (!folder.has_certificate()) return absl::OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(const tls::CheckedCertificate own, folder.Check(tls::Holder::kNode));
  if (options.node_id.empty()) options.node_id = own.identity.name;
  if (options.node_id == own.identity.name) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("--node-id ", options.node_id, ": the certificate in ",
                                                    options.tls_dir, " is of node ", own.identity.name,
                                                    "; leave --node-id out"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Create(Options options, const Clock& clock,
                                                       const ProcessTable& processes, Log& log) {
  LOCKSTEP_RETURN_IF_ERROR(TakeNodeOfCertificate(options));
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<EventLoop> loop, EventLoop::Create(clock));
  std::unique_ptr<LineSink> audit_lines;
  if (!options.audit_file.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        audit_lines,
        OpenAuditFile(options.audit_file, options.audit_syslog ? AuditCopy::kSyslog : AuditCopy::kNone,
                      "lockstepd",
                      [&log](LogLevel level, const char* event, std::initializer_list<LogField> fields) {
                        log.Write(level, event, fields);
                      }));
  }
  std::unique_ptr<Daemon> daemon(
      new Daemon(std::move(options), clock, processes, log, std::move(loop), std::move(audit_lines)));
  LOCKSTEP_RETURN_IF_ERROR(daemon->OpenSockets(processes));
  LOCKSTEP_RETURN_IF_ERROR(daemon->AddConfiguredAggregators());
  LOCKSTEP_RETURN_IF_ERROR(daemon->OpenMetrics());
  return daemon;
}

Daemon::Daemon(Options options, const Clock& clock, const ProcessTable& processes, Log& log,
               std::unique_ptr<EventLoop> loop, std::unique_ptr<LineSink> audit_lines)
    : options_(std::move(options)),
      clock_(clock),
      log_(log),
      audit_({.program = kDaemonVersion,
              .session = RandomNumber(),
              .user_name = &SystemUserName,
              .log = [&log](LogLevel level, const char* event,
                            std::initializer_list<LogField> fields) { log.Write(level, event, fields); }},
             std::move(audit_lines), clock),
      loop_(std::move(loop)),
      node_{.id = CleanText(options_.node_id.empty() ? ReadBootId() : options_.node_id, 256),
            .host_name = CleanText(options_.node_name.empty() ? ReadHostName() : options_.node_name, 256),
            .owner = geteuid()},
      jobs_(processes),
      expected_(
          {.socket = AbsolutePath(options_.socket), .ticks_per_second = sysconf(_SC_CLK_TCK)},
          {.registered = [this](int32_t pid) { return registry_.HasPid(pid); },
           .by_profiler = [this](int32_t pid) { return registry_.HasProfiledPid(pid); },
           .reported = [this](int32_t pid) { return attempts_.IsRefused(pid) || attempts_.IsPresent(pid); },
           .probed = [this](const ProcessId& process) { return attempts_.HasProbed(process); }}),
      client_path_(
          *loop_, clock, registry_, clients_, captures_, [this] { OnRanksChanged(); }, log),
      kineto_path_(
          *loop_, clock, captures_, [this] { OnRanksChanged(); }, audit_, log),
      links_(node_, options_.spool_bytes, *loop_, clock, registry_, captures_, losses_, audit_, log),
      clients_(MakeClientOptions(options_, node_.owner), *loop_, processes, jobs_, registry_, attempts_,
               client_path_, log),
      captures_(clock, links_, client_path_, kineto_path_, [this] { OnCapturesChanged(); }),
      captures_timer_(*loop_, clock, [this] { captures_.Tick(); }),
      node_control_(node_, registry_, expected_, attempts_, captures_, kineto_path_, links_, audit_, log),
      scheduler_control_(node_.owner, *loop_, jobs_, registry_, clients_, audit_, log),
      roles_(options_.roles, std::make_shared<SystemUsers>(), std::make_shared<SystemClock>()),
      control_({.owner = node_.owner}, roles_, *loop_, clock, node_control_, scheduler_control_, log),
      last_active_(clock.Monotonic()) {}

absl::Status Daemon::OpenSockets(const ProcessTable& processes) {
  const std::string folder = FolderOf(options_.socket);
  LOCKSTEP_RETURN_IF_ERROR(PrepareSocketFolder(folder));
  LOCKSTEP_ASSIGN_OR_RETURN(lock_, LockFile(options_.socket + ".lock"));
  // The Kineto socket opens first: a process that finds the other sockets must find this one too.
  LOCKSTEP_RETURN_IF_ERROR(OpenKineto(processes));
  // Root's sockets accept all users; the caller's identity from the kernel decides their rights.
  const mode_t mode = node_.owner == 0 ? 0666 : 0600;
  LOCKSTEP_ASSIGN_OR_RETURN(ListeningSocket control,
                            ListeningSocket::Open(folder + "/control.sock", SOCK_STREAM, mode));
  LOCKSTEP_ASSIGN_OR_RETURN(ListeningSocket clients,
                            ListeningSocket::Open(options_.socket, SOCK_SEQPACKET, mode));
  LOCKSTEP_RETURN_IF_ERROR(control_.Start(std::move(control)));
  LOCKSTEP_RETURN_IF_ERROR(clients_.Start(std::move(clients)));
  log_.Info("listening", {{"socket", options_.socket}, {"node", node_.id}, {"pid", getpid()}});
  return absl::OkStatus();
}

absl::Status Daemon::OpenKineto(const ProcessTable& processes) {
  if (options_.kineto == Options::Kineto::kOff) return absl::OkStatus();
  kineto_path_.Open({.owner = node_.owner,
                     .folder = KinetoFolderOf(options_.socket),
                     .well_known_names = options_.kineto == Options::Kineto::kOn},
                    processes, jobs_, registry_);
  return options_.dyno_port ? kineto_path_.OpenDyno(*options_.dyno_port) : absl::OkStatus();
}

absl::StatusOr<rpc::SecuritySettings> Daemon::LoadSecurity() const {
  LOCKSTEP_ASSIGN_OR_RETURN(rpc::Token token, LoadToken());
  return rpc::SecuritySettings{.tls_dir = options_.tls_dir,
                               .token = std::move(token),
                               .plaintext = options_.plaintext ? rpc::SecuritySettings::Plaintext::kYes
                                                               : rpc::SecuritySettings::Plaintext::kNo};
}

absl::StatusOr<rpc::Token> Daemon::LoadToken() const {
  return options_.token_file.empty() ? rpc::Token() : rpc::Token::Load(options_.token_file);
}

absl::Status Daemon::AddConfiguredAggregators() {
  LOCKSTEP_ASSIGN_OR_RETURN(const rpc::SecuritySettings settings, LoadSecurity());
  for (const std::string& address : options_.aggregators) {
    LOCKSTEP_RETURN_IF_ERROR(links_.AddConfigured(address, settings));
  }
  return absl::OkStatus();
}

absl::Status Daemon::OpenMetrics() {
  if (options_.metrics.empty()) return absl::OkStatus();
  HttpServerOptions http;
  http.address = options_.metrics;
  LOCKSTEP_ASSIGN_OR_RETURN(const rpc::SecuritySettings settings, LoadSecurity());
  if (!settings.token.empty()) http.check = HttpServer::RequireToken(settings.token);
  http.protect = [this, settings] {
    return rpc::TlsForHttp(settings, tls::Holder::kNode, std::make_shared<SystemClock>(),
                           [this](LogLevel level, const char* event, std::initializer_list<LogField> fields) {
                             log_.Write(level, event, fields);
                           });
  };
  LOCKSTEP_ASSIGN_OR_RETURN(
      metrics_, DaemonMetrics::Start(std::move(http), {.loop = *loop_,
                                                       .registry = registry_,
                                                       .clients = clients_,
                                                       .captures = captures_,
                                                       .client_path = client_path_,
                                                       .kineto_path = kineto_path_,
                                                       .links = links_,
                                                       .losses = losses_,
                                                       .audit = audit_,
                                                       .log = log_,
                                                       .spool_limit_bytes = options_.spool_bytes}));
  log_.Info("metrics", {{"address", metrics_->address()}});
  return absl::OkStatus();
}

void Daemon::Run() {
  if (options_.idle_exit) CheckIdle();
  loop_->Run();
}

void Daemon::OnRanksChanged() {
  last_active_ = clock_.Monotonic();
  links_.RanksChanged();
}

void Daemon::OnCapturesChanged() {
  links_.UpdateClockSyncRate();
  captures_timer_.Set(captures_.NextDeadline());
  if (stopping_ && !captures_.Busy()) loop_->Post([this] { FinishStop(); });
}

void Daemon::CheckIdle() {
  const MonoTime now = clock_.Monotonic();
  if (clients_.connections() > 0 || kineto_path_.ranks() > 0 || links_.HasDialled() || captures_.Busy())
    last_active_ = now;
  last_active_ = std::max(last_active_, control_.last_call());
  if (now - last_active_ >= *options_.idle_exit && expected_.AnyAlive(node_.owner)) last_active_ = now;
  if (now - last_active_ >= *options_.idle_exit) {
    log_.Info("idle", {{"seconds", options_.idle_exit->seconds()}});
    return BeginStop();
  }
  const Nanos check = std::clamp(*options_.idle_exit / 10, Nanos::Millis(10), Nanos::Seconds(1));
  loop_->After(check, [this] {
    if (!stopping_) CheckIdle();
  });
}

void Daemon::Stop() {
  loop_->Post([this] { BeginStop(); });
}

void Daemon::BeginStop() {
  if (stopping_) return FinishStop();
  stopping_ = true;
  log_.Info("stopping");
  links_.BeginStop();
  captures_.StopAll();  // leads to OnCapturesChanged, also if there is no capture to wait for
  loop_->After(kStopWait, [this] { FinishStop(); });
}

void Daemon::FinishStop() {
  if (finished_) return;
  finished_ = true;
  // Unfinished drains end here. The spools are flushed as far as the aggregators accept within kFlushWait.
  links_.Flush(kFlushWait);
  log_.Info("stopped");
  loop_->Stop();
}

}  // namespace lockstep::daemon
