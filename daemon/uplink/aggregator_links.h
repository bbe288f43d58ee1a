// AggregatorLinks owns the connections to aggregators: those of the daemon's settings, those that
// `lockstep trace` requests for one capture, and those of jobs.
//
// It limits how many each user may have. It sends them the ranks that they may see and the data of captures,
// and passes their requests to NodeCaptures. The main thread; the uplinks' threads only post to it.
#ifndef LOCKSTEP_DAEMON_UPLINK_AGGREGATOR_LINKS_H_
#define LOCKSTEP_DAEMON_UPLINK_AGGREGATOR_LINKS_H_

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/log/audit_log.h"
#include "base/log/log.h"
#include "base/rpc/security.h"
#include "base/rpc/token.h"
#include "base/time.h"
#include "daemon/captures/capture_uplinks.h"
#include "daemon/captures/node_captures.h"
#include "daemon/clients/departed_ranks.h"
#include "daemon/clients/progress_answers.h"
#include "daemon/clients/rank_stacks.h"
#include "daemon/drain/spool.h"
#include "daemon/loop/event_loop.h"
#include "daemon/node/control_caller.h"
#include "daemon/node/host_access.h"
#include "daemon/node/node_info.h"
#include "daemon/node/registry.h"
#include "daemon/uplink/uplink.h"
#include "daemon/watch/step_watch.h"
#include "lockstep/v1/control.pb.h"
#include "lockstep/v1/ingest.pb.h"
#include "wire/losses/loss_table.h"

namespace lockstep::daemon {

class AggregatorLinks final : public CaptureUplinks, private UplinkEvents {
 public:
  struct Link {
    std::unique_ptr<Uplink> uplink;
    RankFilter filter = RankFilter::All();
    // `lockstep trace` requested this connection for one capture.
    bool dialled = false;
    AuditCaller who;  // the user or aggregator on whose behalf it captures
    // The user whose `lockstep run` passed a job's aggregator to this daemon.
    std::optional<uid_t> passed_by;
    // The user who requested this connection also for their other programs.
    std::optional<uid_t> shared_by;
    // Completes the Dial that waits for this link.
    std::function<void(std::string error)> dialled_done;
    // It receives the steps of its ranks.
    bool follows_steps = false;
    std::optional<MonoTime> away_since;  // time when it lost its aggregator; unset while it is connected
    // The memory of its spool, which all connections of one user share.
    std::shared_ptr<SpoolBudget> budget;
    bool configured() const { return !dialled && !passed_by.has_value(); }
  };

  // All references outlive this.
  AggregatorLinks(NodeInfo node, size_t spool_bytes, std::shared_ptr<const HostAccess> access,
                  EventLoop& loop, const Clock& clock, Registry& registry, const DepartedRanks& departed,
                  NodeCaptures& captures, ProgressAnswers& progress, StepWatch& steps,
                  losses::LossTable& losses, AuditLog& audit, Log& log);

  // Connects to an aggregator of the daemon's settings, for all ranks.
  absl::Status AddConfigured(const std::string& address, const rpc::SecuritySettings& settings);
  // Connects to an aggregator for the ranks of `caller`: at a Unix socket for one capture, at a port for a
  // job. `done` is called once on the main thread, but not after the end of its loop.
  void Dial(const ControlCaller& caller, const v1::DialRequest& request,
            std::function<void(std::string error)> done);

  // The registry has changed. Each aggregator receives its list of ranks soon after.
  void RanksChanged();
  // Adapts the rate of clock exchanges to the captures.
  void UpdateClockSyncRate();

  // From now on ignores requests and refuses connections.
  void BeginStop() { stopping_ = true; }
  // Waits until the aggregators have acknowledged everything, but not longer than `at_most` in all.
  void Flush(Nanos at_most);

  // Returns true if a connection for one capture exists.
  bool HasDialled() const;
  // Returns one line about the configured aggregators. kUnavailable: the daemon is ending.
  absl::StatusOr<std::string> Health() const;
  // Adds what `caller` may know: aggregators shared with the user, the clock, and warnings.
  void AddStatus(uid_t caller, v1::DaemonStatus& daemon) const;
  const std::map<UplinkId, Link>& links() const { return links_; }
  // Totals of the spools of removed links.
  const SpoolStats& removed_spools() const { return removed_spools_; }

  // CaptureUplinks.
  bool MayCapture(UplinkId uplink, const ProcessId& process, CaptureTime time) override;
  Nanos AwayFor(UplinkId uplink) override;
  HostTime ToHost(UplinkId uplink, JobTime t) override;
  std::shared_ptr<Spool> SpoolOf(UplinkId uplink) override;
  void SendStates(UplinkId uplink, v1::RankStates states) override;
  void SendEnd(UplinkId uplink, const ProcessId& process, const std::string& capture) override;
  void Discard(UplinkId uplink, const std::string& capture) override;

 private:
  static constexpr size_t kMostDialled = 256;
  static constexpr size_t kMostDialledByOne = 8;
  static constexpr size_t kMostPassed = 256;
  static constexpr size_t kMostPassedByOne = 16;
  static constexpr int kMostPendingRequests = 256;
  static constexpr Nanos kRanksPause = Nanos::Millis(5);
  // About a megabyte. A message has at most one rank more.
  static constexpr int kMostStepRows = 32'768;

  // UplinkEvents, called on the uplinks' threads.
  void OnUplinkUp(UplinkId uplink) override;
  void OnUplinkDown(UplinkId uplink, const absl::Status& why, bool last) override;
  void OnRequest(UplinkId uplink, const v1::FromAggregator& request) override;

  // Takes or calls `done` only if it returns no error.
  absl::Status TryDial(const ControlCaller& caller, const v1::DialRequest& request,
                       std::function<void(std::string error)>& done);
  // Connects to a job's aggregator that listens on a port.
  absl::Status AddJobAggregator(const ControlCaller& caller, const v1::DialRequest& request);
  UplinkOptions MakeUplinkOptions(const std::string& address, const rpc::Token& token) const;
  // kResourceExhausted: another connection for a capture of `caller` would be beyond a limit.
  absl::Status CheckDialled(uid_t caller) const;
  // Returns the memory of all spools that `user` requested.
  std::shared_ptr<SpoolBudget> BudgetOf(uid_t user);
  Link& Add(UplinkOptions options, RankFilter filter, std::shared_ptr<SpoolBudget> budget);
  // Returns null if the uplink has gone.
  const Link* Find(UplinkId uplink) const;
  // Ends the captures that a restarted aggregator has not resumed.
  void EndForgotten(UplinkId uplink, const v1::RunningCaptures& running);
  void SendRanks(const Link& link) const;
  // Notes the request in the logs.
  void NoteArm(const Link& link, const v1::Arm& arm, CaptureTime time);
  void HandleRequest(UplinkId uplink, const v1::FromAggregator& request);
  void FollowSteps(Link& link);
  // Ends the watch of steps if no aggregator follows them.
  void CheckSteps();
  void SendSteps(const std::vector<v1::ProcessSteps>& all);
  void AnswerProgress(UplinkId uplink, const Link& link, const v1::ReadProgress& request);

  const NodeInfo node_;
  const size_t spool_bytes_;
  // Connections are made on the uplinks' threads.
  const std::shared_ptr<const HostAccess> access_;
  EventLoop& loop_;
  const Clock& clock_;
  Registry& registry_;
  const DepartedRanks& departed_;
  NodeCaptures& captures_;
  ProgressAnswers& progress_;
  StepWatch& steps_;
  losses::LossTable& losses_;
  AuditLog& audit_;
  Log& log_;
  bool ranks_pending_ = false;
  bool stopping_ = false;
  SpoolStats removed_spools_;
  UplinkId next_uplink_ = 1;
  std::atomic<int> pending_requests_ = 0;
  // Declared last, because the threads of the uplinks use the other members.
  std::map<UplinkId, Link> links_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_UPLINK_AGGREGATOR_LINKS_H_
