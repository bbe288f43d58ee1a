// KinetoCapturePath captures processes through PyTorch's own profiler (docs/kineto.md).
//
// It serves the profilers' sockets and keeps the processes that poll. It offers them the requests of captures
// and of dynolog's remote calls, and reports their states to Captures. It moves the trace files that they
// leave into the spool of the capture. The main thread.
#ifndef LOCKSTEP_DAEMON_CAPTURES_KINETO_CAPTURE_PATH_H_
#define LOCKSTEP_DAEMON_CAPTURES_KINETO_CAPTURE_PATH_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/log/audit_log.h"
#include "base/log/log.h"
#include "base/time.h"
#include "daemon/captures/capture_path.h"
#include "daemon/captures/captures.h"
#include "daemon/drain/spool.h"
#include "daemon/kineto/dyno_offers.h"
#include "daemon/kineto/dyno_server.h"
#include "daemon/kineto/kineto_captures.h"
#include "daemon/kineto/kineto_files.h"
#include "daemon/kineto/kineto_processes.h"
#include "daemon/kineto/kineto_server.h"
#include "daemon/loop/deadline_timer.h"
#include "daemon/loop/event_loop.h"
#include "daemon/node/process.h"
#include "daemon/node/registry.h"
#include "daemon/node/scheduler_jobs.h"

namespace lockstep::daemon {

struct KinetoPathOptions {
  uid_t owner = 0;     // KinetoServerOptions::owner
  std::string folder;  // the daemon's own folder for sockets of the profilers (base/kineto_folder.h)
  // Serve also the names that other daemons of the machine may hold: dynolog's, and the one in the folder
  // KINETO_IPC_SOCKET_DIR.
  bool well_known_names = true;
};

// Trace files since the daemon started.
struct KinetoCounts {
  uint64_t sent = 0;
  uint64_t failed = 0;
  uint64_t missing = 0;
  uint64_t bytes = 0;
};

class KinetoCapturePath final : public CapturePath, private KinetoEvents, private KinetoPorts {
 public:
  // `ranks_changed` is called when the registry has changed. All references outlive this.
  KinetoCapturePath(EventLoop& loop, const Clock& clock, Captures& captures,
                    std::function<void()> ranks_changed, AuditLog& audit, Log& log);

  // Opens the sockets for Open. It is not an error if another process holds a name; Describe reports it.
  // The abstract name opens only with the well-known names.
  static KinetoSockets OpenSockets(const KinetoPathOptions& options, AbstractName abstract_name);
  // Serves the sockets; without it, no process is reached. All references outlive this.
  void Open(const KinetoPathOptions& options, KinetoSockets sockets,
            const std::shared_ptr<const HostAccess>& access, const ProcessTable& processes,
            const SchedulerJobs& jobs, Registry& registry);
  // Serves dynolog's remote calls at a port of loopback. Call it after Open.
  absl::Status OpenDyno(uint16_t port);

  // CapturePath.
  bool Choose(const ProcessId& process, const std::string& capture, uint32_t framework) override;
  bool Send(const ProcessId& process, const ring::Arm& message) override;
  bool Send(const ProcessId& process, const ring::Start& message) override;
  bool Send(const ProcessId& process, const ring::Stop& message) override;
  bool StartIterations(const ProcessId& process, const KinetoIterations& iterations,
                       HostTime give_up) override;
  bool KnowsTriggers(const ProcessId& process) const override;
  Nanos Lead(const ProcessId& process) const override;
  uint64_t BeginDrain(const ProcessId& process, const std::string& capture,
                      std::shared_ptr<Spool> spool) override;
  void RestartDrain(const ProcessId& process) override;
  void EndDrain(const ProcessId& process, uint64_t number, const HostInterval& window) override;
  void AbandonDrain(const ProcessId& process) override;

  // Returns one sentence about the sockets.
  std::string Describe() const;
  // Number of ranks that poll.
  size_t ranks() const;
  const KinetoCounts& counts() const { return counts_; }
  // Number of invalid datagrams since the daemon started.
  uint64_t dropped_datagrams() const;

 private:
  // The capture and the spool to which a process's trace file goes.
  struct Target {
    std::string capture;
    std::shared_ptr<Spool> spool;
  };

  // KinetoEvents.
  void OnKinetoRanksChanged() override;
  void OnKinetoPoll(const KinetoPoll& poll) override;
  void OnKinetoGone(const ProcessId& process, const std::string& why) override;

  // KinetoPorts.
  void Offer(const ProcessId& process, std::string config) override;
  void Withdraw(const ProcessId& process) override;
  KinetoFileId WatchFile(KinetoFileSpec spec) override;
  void DiscardFile(const KinetoFileId& file, MonoTime until) override;
  void SendState(const ProcessId& process, const ring::State& state) override;

  // Called after any change to kineto_captures_.
  void UpdateTimer() { timer_.Set(kineto_captures_.NextDeadline()); }
  bool Updated(bool result);

  EventLoop& loop_;
  const Clock& clock_;
  Captures& captures_;
  const std::function<void()> ranks_changed_;
  AuditLog& audit_;
  Log& log_;
  KinetoCaptures kineto_captures_;
  DeadlineTimer timer_;
  std::map<ProcessId, Target> targets_;
  KinetoCounts counts_;
  // Null before Open. Each is declared after those that it uses.
  std::unique_ptr<KinetoFiles> files_;
  std::unique_ptr<KinetoServer> server_;
  std::unique_ptr<KinetoProcesses> processes_;
  std::unique_ptr<DynoOffers> dyno_offers_;
  std::unique_ptr<DynoServer> dyno_server_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CAPTURES_KINETO_CAPTURE_PATH_H_
