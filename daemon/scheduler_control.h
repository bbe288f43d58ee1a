// SchedulerControl carries out the scheduler's statements about its jobs: Node.BeginJob and Node.EndJob.
//
// When a step ends, its captures on this node end too. Processes that outlive their step are from then on
// identified by their environment. The main thread.
#ifndef LOCKSTEP_DAEMON_SCHEDULER_CONTROL_H_
#define LOCKSTEP_DAEMON_SCHEDULER_CONTROL_H_

#include <sys/types.h>

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/log/audit_log.h"
#include "base/log/log.h"
#include "base/time.h"
#include "daemon/clients/client_server.h"
#include "daemon/control_server.h"
#include "daemon/loop/event_loop.h"
#include "daemon/node/registry.h"
#include "daemon/node/scheduler_jobs.h"
#include "lockstep/v1/control.pb.h"

namespace lockstep::daemon {

class SchedulerControl final : public SchedulerHandler {
 public:
  // Only root and `owner`, the daemon's user, may act for a scheduler. All references outlive this.
  SchedulerControl(uid_t owner, EventLoop& loop, SchedulerJobs& jobs, const Registry& registry,
                   ClientServer& clients, AuditLog& audit, Log& log)
      : owner_(owner),
        loop_(loop),
        jobs_(jobs),
        registry_(registry),
        clients_(clients),
        audit_(audit),
        log_(log) {}

  absl::StatusOr<v1::BeginJobReply> BeginJob(uid_t caller, const v1::BeginJobRequest& request) override;
  absl::Status EndJob(uid_t caller, const v1::EndJobRequest& request) override;

 private:
  static constexpr Nanos kStartersEvery = Nanos::Seconds(1);

  absl::Status CheckScheduler(uid_t caller, const char* what);
  void WatchStarters();
  void EndSteps(const std::vector<SchedulerStep>& steps);

  const uid_t owner_;
  EventLoop& loop_;
  SchedulerJobs& jobs_;
  const Registry& registry_;
  ClientServer& clients_;
  AuditLog& audit_;
  Log& log_;
  std::optional<EventLoop::TimerId> starters_timer_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_SCHEDULER_CONTROL_H_
