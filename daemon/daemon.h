// Daemon is lockstepd: it creates the parts, connects them on one main thread, and decides when to end.
#ifndef LOCKSTEP_DAEMON_DAEMON_H_
#define LOCKSTEP_DAEMON_DAEMON_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log/audit_log.h"
#include "base/log/log.h"
#include "base/rpc/security.h"
#include "base/time.h"
#include "base/tls/certificate_watch.h"
#include "daemon/broker/broker_access.h"
#include "daemon/captures/captures.h"
#include "daemon/captures/client_capture_path.h"
#include "daemon/captures/kineto_capture_path.h"
#include "daemon/captures/log_capture_path.h"
#include "daemon/captures/node_captures.h"
#include "daemon/clients/client_server.h"
#include "daemon/clients/connection_attempts.h"
#include "daemon/clients/departed_ranks.h"
#include "daemon/clients/progress_answers.h"
#include "daemon/clients/rank_progress.h"
#include "daemon/control_server.h"
#include "daemon/daemon_metrics.h"
#include "daemon/daemon_resources.h"
#include "daemon/loop/deadline_timer.h"
#include "daemon/loop/event_loop.h"
#include "daemon/node/expected_processes.h"
#include "daemon/node/host_access.h"
#include "daemon/node/node_info.h"
#include "daemon/node/registry.h"
#include "daemon/node/scheduler_jobs.h"
#include "daemon/node_control.h"
#include "daemon/options.h"
#include "daemon/scheduler_control.h"
#include "daemon/uplink/aggregator_links.h"
#include "daemon/watch/step_watch.h"
#include "wire/losses/loss_table.h"

namespace lockstep::daemon {

class Daemon {
 public:
  // Serves the sockets. All references outlive the daemon.
  static absl::StatusOr<std::unique_ptr<Daemon>> Create(Options options, DaemonResources resources,
                                                        const Clock& clock, Log& log);
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Calls `callback` once per `period` on the main thread, also while the daemon stops. Call it before Run.
  void Every(Nanos period, std::function<void()> callback) { loop_->Every(period, std::move(callback)); }
  // Returns after Stop or the idle exit.
  void Run();
  // Any thread. Ends running captures and sends the spooled data, within some seconds. A second call ends at
  // once.
  void Stop();

  // Ends the daemon at once when its privileged part has ended. `broker` outlives the daemon.
  absl::Status EndWith(const BrokerAccess& broker);
  bool ended_with_broker() const { return ended_with_broker_; }

  // Returns the address of the metrics port; empty: metrics are off.
  std::string metrics_address() const { return metrics_ == nullptr ? "" : metrics_->address(); }

 private:
  static constexpr Nanos kStopWait = Nanos::Seconds(4);
  static constexpr Nanos kFlushWait = Nanos::Seconds(2);
  // An idle daemon keeps the logs of ranks that have left at least so long.
  static constexpr Nanos kKeepLogs = Nanos::Seconds(600);

  Daemon(Options options, DaemonResources& resources, const Clock& clock, Log& log,
         std::unique_ptr<EventLoop> loop);
  absl::Status Serve(DaemonSockets sockets);
  absl::Status AddConfiguredAggregators();
  absl::Status OpenMetrics();

  void OnRanksChanged();
  void OnCapturesChanged();
  void CheckIdle();
  void BeginStop();
  void FinishStop();

  // The parts refer to each other. A part that implements an interface of another one is declared before it.
  // The parts' own threads reach other parts only through the loop, which is declared before all of them.
  const Options options_;
  const std::shared_ptr<const HostAccess> access_;
  const rpc::SecuritySettings security_;
  const Clock& clock_;
  Log& log_;
  AuditLog audit_;
  const tls::CertificateWatch certificate_;
  losses::LossTable losses_{{"cupti", "client", "ring", "spool"}};
  const std::unique_ptr<EventLoop> loop_;
  const NodeInfo node_;
  Fd lock_;
  const ProcFs processes_;
  SchedulerJobs jobs_;
  Registry registry_;
  ConnectionAttempts attempts_{clock_};
  DepartedRanks departed_{clock_};
  const ExpectedProcesses expected_;
  ClientCapturePath client_path_;
  KinetoCapturePath kineto_path_;
  LogCapturePath log_path_;
  AggregatorLinks links_;
  ClientServer clients_;
  Captures present_captures_;
  Captures past_captures_;
  NodeCaptures captures_;
  DeadlineTimer captures_timer_;
  const RankProgress progress_;
  ProgressAnswers progress_answers_;
  StepWatch steps_;
  NodeControl node_control_;
  SchedulerControl scheduler_control_;
  const Roles roles_;
  ControlServer control_;
  std::unique_ptr<DaemonMetrics> metrics_;  // null if metrics are off

  MonoTime last_active_;
  bool stopping_ = false;
  bool finished_ = false;
  bool ended_with_broker_ = false;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_DAEMON_H_
