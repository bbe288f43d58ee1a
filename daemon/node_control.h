// NodeControl answers the control socket's calls about this node: its state, and connections to aggregators.
//
// Each user receives data about their own processes only, unless their role is viewer or admin. The main
// thread.
#ifndef LOCKSTEP_DAEMON_NODE_CONTROL_H_
#define LOCKSTEP_DAEMON_NODE_CONTROL_H_

#include <sys/types.h>

#include <functional>
#include <string>

#include "base/log/audit_log.h"
#include "base/log/log.h"
#include "base/tls/certificate_watch.h"
#include "daemon/captures/captures.h"
#include "daemon/captures/kineto_capture_path.h"
#include "daemon/clients/connection_attempts.h"
#include "daemon/clients/progress_answers.h"
#include "daemon/clients/rank_stacks.h"
#include "daemon/control_server.h"
#include "daemon/node/expected_processes.h"
#include "daemon/node/node_info.h"
#include "daemon/node/registry.h"
#include "daemon/uplink/aggregator_links.h"
#include "lockstep/v1/control.pb.h"

namespace lockstep::daemon {

class NodeControl final : public ControlHandler {
 public:
  // All references outlive this.
  NodeControl(NodeInfo node, Registry& registry, const ExpectedProcesses& expected,
              const ConnectionAttempts& attempts, const NodeCaptures& captures,
              const KinetoCapturePath& kineto, AggregatorLinks& links, ProgressAnswers& progress,
              const tls::CertificateWatch& certificate, AuditLog& audit, Log& log);

  v1::StatusReply Status(const ControlCaller& caller, const v1::StatusRequest& request) override;
  void Progress(const ControlCaller& caller, const v1::ProgressRequest& request,
                std::function<void(v1::ProgressReply)> done) override;
  void Dial(const ControlCaller& caller, const v1::DialRequest& request,
            std::function<void(std::string error)> done) override;
  void ControlRefused(uid_t caller, pid_t pid, const char* reason) override;

 private:
  // Adds a warning for each process that should be a rank but is not registered, with the reason.
  void AddMissing(uid_t caller, v1::DaemonStatus& daemon) const;

  const NodeInfo node_;
  Registry& registry_;
  const ExpectedProcesses& expected_;
  const ConnectionAttempts& attempts_;
  const NodeCaptures& captures_;
  const KinetoCapturePath& kineto_;
  AggregatorLinks& links_;
  ProgressAnswers& progress_;
  const tls::CertificateWatch& certificate_;
  AuditLog& audit_;
  Log& log_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_NODE_CONTROL_H_
