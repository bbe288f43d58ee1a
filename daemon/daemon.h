// lockstepd: wires registry, captures, drainer, spools and uplinks together on one main thread.
#ifndef LOCKSTEP_DAEMON_DAEMON_H_
#define LOCKSTEP_DAEMON_DAEMON_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/log/audit_log.h"
#include "base/log/log.h"
#include "base/metrics/endpoint.h"
#include "daemon/captures.h"
#include "daemon/clients/client_server.h"
#include "daemon/clients/connection_attempts.h"
#include "daemon/control_server.h"
#include "daemon/drain/drainer.h"
#include "daemon/drain/python_profiles.h"
#include "daemon/kineto/dyno_server.h"
#include "daemon/kineto/kineto_captures.h"
#include "daemon/kineto/kineto_files.h"
#include "daemon/kineto/kineto_processes.h"
#include "daemon/kineto/kineto_server.h"
#include "daemon/node/event_loop.h"
#include "daemon/node/expected_processes.h"
#include "daemon/node/registry.h"
#include "daemon/node/scheduler_jobs.h"
#include "daemon/options.h"
#include "daemon/uplink/uplink.h"
#include "wire/losses/loss_table.h"

namespace lockstep::daemon {

class Daemon final : private ClientEvents,
                     private CapturePorts,
                     private ControlHandler,
                     private KinetoEvents,
                     private KinetoPorts,
                     private DynoHandler,
                     private UplinkEvents {
 public:
  // Takes the sockets; kAlreadyExists when another daemon has them. All references outlive it.
  static absl::StatusOr<std::unique_ptr<Daemon>> Create(const Options& options, const Clock& clock,
                                                        const ProcessTable& processes, Log& log);
  ~Daemon() override;

  // Until Stop, or the idle exit.
  void Run();
  // Any thread. Ends captures that run, sends what there is, within some seconds. A second call ends at once.
  void Stop();

  // Where Prometheus is answered; empty: nowhere.
  std::string metrics_address() const { return endpoint_ == nullptr ? "" : endpoint_->address(); }

 private:
  struct Link {
    std::unique_ptr<Uplink> uplink;
    Scope scope = Scope::All();
    // Dialled by `lockstep trace` for one capture.
    bool dialled = false;
    AuditCaller who;  // on whose behalf it captures
    // Whose `lockstep run` has handed a job's aggregator to this daemon.
    std::optional<uid_t> handed_by;
    // Dialled by this user for other programs of theirs too.
    std::optional<uid_t> shared_by;
    // Of the Dial that waits for it.
    std::function<void(std::string error)> dialled_done;
    bool configured() const { return !dialled && !handed_by.has_value(); }
  };
  static constexpr size_t kMostDialled = 16;
  static constexpr size_t kMostHanded = 256;
  static constexpr size_t kMostHandedByOne = 16;
  static constexpr int kMostPendingRequests = 256;
  static constexpr Nanos kStopWait = Nanos::Seconds(4);
  static constexpr Nanos kFlushWait = Nanos::Seconds(2);
  static constexpr Nanos kRanksPause = Nanos::Millis(5);
  static constexpr Nanos kStartersEvery = Nanos::Seconds(1);

  Daemon(Options options, const Clock& clock, const ProcessTable& processes, Log& log,
         std::unique_ptr<EventLoop> loop, std::unique_ptr<LineSink> audit_lines);
  absl::Status OpenSockets(const ProcessTable& processes);
  // A name that somebody else has is no error: status tells.
  absl::Status OpenKineto(const ProcessTable& processes);
  std::string DescribeKineto() const;
  absl::StatusOr<rpc::Token> LoadToken() const;
  absl::Status AddConfiguredAggregators();
  absl::Status OpenMetrics();
  Link& AddLink(UplinkOptions options, Scope scope);
  UplinkOptions MakeUplinkOptions(const std::string& name) const;

  // After anything that may have changed a capture: its next deadline, and how often clocks are exchanged.
  void CapturesChanged();
  void SendRanks();
  void CheckIdle();
  ToldProcesses Told() const;
  void AddMissing(uid_t caller, v1::DaemonStatus& daemon) const;
  void BeginStop();
  void FinishStop();

  // ClientEvents.
  void OnRanksChanged() override;
  void OnClientState(const ProcessId& process, const ring::State& state) override;
  void OnClientProfile(const ProcessId& process, const ring::Profile& profile, Fd file) override;
  void OnClientGone(const ProcessId& process, const std::string& why) override;

  // CapturePorts.
  bool SendToClient(const ProcessId& process, const ring::Arm& message) override;
  bool SendToClient(const ProcessId& process, const ring::Start& message) override;
  bool SendToClient(const ProcessId& process, const ring::Stop& message) override;
  bool StartIterations(const ProcessId& process, const KinetoIterations& iterations,
                       HostTime give_up) override;
  bool MayCapture(UplinkId uplink, const ProcessId& process) override;
  bool KnowsTriggers(const ProcessId& process) override;
  bool ChoosePath(UplinkId uplink, const ProcessId& process, const std::string& capture,
                  std::optional<uint32_t> framework) override;
  bool GoOverToKineto(UplinkId uplink, const ProcessId& process, const std::string& capture,
                      uint32_t framework) override;
  Nanos Lead(const ProcessId& process) override;
  uint64_t BeginDrain(UplinkId uplink, const ProcessId& process, const std::string& capture) override;
  void EndDrain(const ProcessId& process, uint64_t number, const HostInterval& window) override;
  void RestartDrain(const ProcessId& process) override;
  void AbandonDrain(UplinkId uplink, const ProcessId& process, const std::string& capture) override;
  void SendEnd(UplinkId uplink, const ProcessId& process, const std::string& capture) override;
  void SendStates(UplinkId uplink, v1::RankStates states) override;
  HostTime ToHost(UplinkId uplink, JobTime t) override;

  // KinetoEvents.
  void OnKinetoRanksChanged() override;
  void OnKinetoPoll(const KinetoPoll& poll) override;
  void OnKinetoGone(const ProcessId& process, const std::string& why) override;

  // KinetoPorts.
  void Offer(const ProcessId& process, std::string config) override;
  void Withdraw(const ProcessId& process) override;
  KinetoFileId WatchFile(KinetoFileSpec spec) override;
  void DiscardFile(const KinetoFileId& file, MonoTime until) override;
  void TellState(const ProcessId& process, const ring::State& state) override;
  // DynoHandler.
  DynoTriggered Trigger(uid_t caller, const DynoTrigger& trigger) override;
  void EndDynoOffer(const ProcessId& process);

  bool ByKineto(const ProcessId& process) const { return kineto_captures_.Holds(process); }
  void KinetoChanged();
  void EndKineto(const ProcessId& process, uint64_t number, const HostInterval& window);

  // For the metrics port (daemon_metrics.cc).
  void AddMetrics(metrics::Page& page) const;
  void AddCaptureMetrics(metrics::Page& page) const;
  void AddUplinkMetrics(metrics::Page& page) const;
  absl::StatusOr<std::string> Health() const;

  // ControlHandler.
  v1::StatusReply Status(uid_t caller, const v1::StatusRequest& request) override;
  void Dial(uid_t caller, const v1::DialRequest& request,
            std::function<void(std::string error)> done) override;
  absl::StatusOr<v1::BeginJobReply> BeginJob(uid_t caller, const v1::BeginJobRequest& request) override;
  absl::Status EndJob(uid_t caller, const v1::EndJobRequest& request) override;
  void ControlRefused(uid_t caller, pid_t pid, const char* reason) override;
  // Who is connected to a local socket, as the kernel says.
  static AuditCaller Local(uid_t caller) { return {"kernel", caller, ""}; }
  // Only root and this daemon's user speak for a scheduler.
  absl::Status CheckScheduler(uid_t caller, const char* what);
  void WatchStarters();
  // Captures in them end; who outlives a step is from then on what it says it is.
  void ForgetSteps(const std::vector<SchedulerStep>& steps);
  absl::Status TryDial(uid_t caller, const v1::DialRequest& request,
                       std::function<void(std::string error)>& done);
  // A job's aggregator, at a port.
  absl::Status TakeOn(uid_t caller, const v1::DialRequest& request);

  // UplinkEvents: other threads.
  void OnUplinkUp(UplinkId uplink) override;
  void OnUplinkDown(UplinkId uplink, const absl::Status& why, bool last) override;
  void OnRequest(UplinkId uplink, const v1::FromAggregator& request) override;
  void HandleRequest(UplinkId uplink, const v1::FromAggregator& request);

  const Options options_;
  const Clock& clock_;
  Log& log_;
  AuditLog audit_;
  const std::unique_ptr<EventLoop> loop_;
  const std::string node_id_;
  const std::string host_name_;
  const uid_t owner_;
  metrics::LossTable losses_{{"cupti", "client", "ring", "spool"}};
  Fd lock_;
  SchedulerJobs jobs_;
  std::optional<EventLoop::TimerId> starters_timer_;
  Registry registry_;
  ClientVisits visits_{clock_};
  Captures captures_;
  std::optional<EventLoop::TimerId> capture_timer_;
  bool ranks_pending_ = false;
  MonoTime last_active_;
  bool stopping_ = false;
  bool finished_ = false;
  UplinkId next_uplink_ = 1;
  std::atomic<int> pending_requests_ = 0;
  std::map<UplinkId, Link> links_;
  // What the spools of links that are gone had counted.
  SpoolStats gone_spools_;
  KinetoCaptures kineto_captures_;
  // What a process's trace file is to be sent as.
  struct KinetoTarget {
    std::string capture;
    std::shared_ptr<Spool> spool;
  };
  std::map<ProcessId, KinetoTarget> kineto_targets_;
  struct KinetoCounts {
    uint64_t sent = 0;
    uint64_t failed = 0;
    uint64_t missing = 0;
    uint64_t bytes = 0;
  };
  KinetoCounts kineto_counts_;
  std::optional<EventLoop::TimerId> kineto_timer_;
  // Requests that came by dyno and wait to be taken: since when, and whether an answer has held them.
  struct DynoOffer {
    MonoTime since;
    bool handed = false;
  };
  static constexpr Nanos kDynoOfferLasts = Nanos::Seconds(30);
  std::map<ProcessId, DynoOffer> dyno_offers_;
  // After what their callbacks touch, so that they end first.
  std::unique_ptr<ClientServer> clients_;
  std::unique_ptr<ControlServer> control_;
  std::unique_ptr<Drainer> drainer_;
  PythonProfiles python_profiles_;
  // Null where Kineto is off.
  std::unique_ptr<KinetoServer> kineto_server_;
  std::unique_ptr<KinetoProcesses> kineto_processes_;
  std::unique_ptr<KinetoFiles> kineto_files_;
  std::unique_ptr<DynoServer> dyno_;
  // Null where it is off.
  std::unique_ptr<metrics::Endpoint> endpoint_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_DAEMON_H_
