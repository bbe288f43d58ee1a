#include "daemon/daemon.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/log/clean_text.h"
#include "base/random_number.h"
#include "base/rpc/status_macros.h"
#include "base/tls/tls_folder.h"
#include "daemon/node/process.h"
#include "daemon/node/socket.h"
#include "daemon/node/version.h"

namespace lockstep::daemon {
namespace {

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

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Create(Options options, DaemonResources resources,
                                                       const Clock& clock, Log& log) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<EventLoop> loop, EventLoop::Create(clock));
  std::unique_ptr<Daemon> daemon(new Daemon(std::move(options), resources, clock, log, std::move(loop)));
  LOCKSTEP_RETURN_IF_ERROR(daemon->Serve(std::move(resources.sockets)));
  LOCKSTEP_RETURN_IF_ERROR(daemon->AddConfiguredAggregators());
  LOCKSTEP_RETURN_IF_ERROR(daemon->OpenMetrics());
  daemon->certificate_.LogWarning();
  daemon->Every(tls::CertificateWatch::kLogEvery, [watch = &daemon->certificate_] { watch->LogWarning(); });
  return daemon;
}

Daemon::Daemon(Options options, DaemonResources& resources, const Clock& clock, Log& log,
               std::unique_ptr<EventLoop> loop)
    : options_(std::move(options)),
      access_(std::move(resources.access)),
      security_(std::move(resources.security)),
      clock_(clock),
      log_(log),
      audit_({.program = kDaemonVersion,
              .session = RandomNumber(),
              .user_name = &SystemUserName,
              .log = SinkOf(log)},
             std::move(resources.audit_lines), clock),
      certificate_(options_.tls_dir, security_.open_file, std::make_shared<SystemClock>(), SinkOf(log)),
      loop_(std::move(loop)),
      node_{.id = CleanText(options_.node_id.empty() ? ReadBootId() : options_.node_id, 256),
            .host_name = CleanText(options_.node_name.empty() ? ReadHostName() : options_.node_name, 256),
            .owner = resources.sockets.owner},
      lock_(std::move(resources.sockets.lock)),
      processes_(*access_),
      jobs_(processes_),
      expected_(
          {.socket = AbsolutePath(options_.socket),
           .socket_file = [this] { return clients_.socket_file(); },
           .ticks_per_second = sysconf(_SC_CLK_TCK)},
          *access_,
          {.registered = [this](int32_t pid) { return registry_.HasPid(pid); },
           .by_profiler = [this](int32_t pid) { return registry_.HasProfiledPid(pid); },
           .reported = [this](int32_t pid) { return attempts_.IsRefused(pid) || attempts_.IsPresent(pid); },
           .probed = [this](const ProcessId& process) { return attempts_.HasProbed(process); }}),
      client_path_(
          *loop_, clock, registry_, clients_, present_captures_, [this] { OnRanksChanged(); }, log),
      kineto_path_(
          *loop_, clock, present_captures_, [this] { OnRanksChanged(); }, audit_, log),
      log_path_(*loop_, clients_, departed_, past_captures_, log),
      links_(node_, options_.spool_bytes, access_, *loop_, clock, registry_, departed_, captures_,
             progress_answers_, steps_, losses_, audit_, log),
      clients_(MakeClientOptions(options_, node_.owner), *loop_, processes_, jobs_, registry_, attempts_,
               departed_, client_path_, log),
      present_captures_(clock, links_, client_path_, kineto_path_, [this] { OnCapturesChanged(); }),
      past_captures_(
          clock, links_, log_path_, log_path_, [this] { OnCapturesChanged(); }, {}, CaptureTime::kPast),
      captures_(present_captures_, past_captures_),
      captures_timer_(*loop_, clock, [this] { captures_.Tick(); }),
      progress_(node_, registry_, clients_, departed_, clock, *access_),
      progress_answers_(progress_, *access_, *loop_),
      steps_(*loop_, clock, registry_, clients_),
      node_control_(node_, registry_, expected_, attempts_, captures_, kineto_path_, links_,
                    progress_answers_, certificate_, audit_, log),
      scheduler_control_(node_.owner, *loop_, jobs_, registry_, clients_, audit_, log),
      roles_(options_.roles, std::make_shared<SystemUsers>(), std::make_shared<SystemClock>()),
      control_({.owner = node_.owner}, roles_, *loop_, clock, node_control_, scheduler_control_, log),
      last_active_(clock.Monotonic()) {}

absl::Status Daemon::Serve(DaemonSockets sockets) {
  if (options_.kineto != Options::Kineto::kOff) {
    kineto_path_.Open(KinetoPathOptionsOf(options_, node_.owner), std::move(sockets.kineto), access_,
                      processes_, jobs_, registry_);
    if (options_.dyno_port) LOCKSTEP_RETURN_IF_ERROR(kineto_path_.OpenDyno(*options_.dyno_port));
  }
  LOCKSTEP_RETURN_IF_ERROR(control_.Start(std::move(sockets.control)));
  LOCKSTEP_RETURN_IF_ERROR(clients_.Start(std::move(sockets.clients)));
  log_.Info("listening", {{"socket", options_.socket}, {"node", node_.id}, {"pid", getpid()}});
  return absl::OkStatus();
}

absl::Status Daemon::AddConfiguredAggregators() {
  for (const std::string& address : options_.aggregators) {
    LOCKSTEP_RETURN_IF_ERROR(links_.AddConfigured(address, security_));
  }
  return absl::OkStatus();
}

absl::Status Daemon::OpenMetrics() {
  if (options_.metrics.empty()) return absl::OkStatus();
  HttpServerOptions http;
  http.address = options_.metrics;
  if (!security_.token.empty()) http.check = HttpServer::RequireToken(security_.token);
  http.protect = [this] {
    return rpc::TlsForHttp(security_, tls::Holder::kNode, std::make_shared<SystemClock>(), SinkOf(log_));
  };
  LOCKSTEP_ASSIGN_OR_RETURN(
      metrics_, DaemonMetrics::Start(std::move(http), {.loop = *loop_,
                                                       .registry = registry_,
                                                       .clients = clients_,
                                                       .captures = captures_.present(),
                                                       .client_path = client_path_,
                                                       .kineto_path = kineto_path_,
                                                       .links = links_,
                                                       .losses = losses_,
                                                       .audit = audit_,
                                                       .certificate = certificate_,
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
  if (clients_.connections() > 0 || kineto_path_.ranks() > 0 || links_.HasDialled() || captures_.Busy() ||
      departed_.HasLogSince(kKeepLogs))
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

absl::Status Daemon::EndWith(const BrokerAccess& broker) {
  return loop_
      ->Watch(broker.socket(),
              [this, &broker] {
                if (!broker.gone()) return;
                ended_with_broker_ = true;
                FinishStop();
              })
      .status();
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
