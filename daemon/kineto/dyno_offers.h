// DynoOffers passes the requests of dynolog's remote calls (DynoServer) to the processes that poll.
//
// Each request waits until its process takes it, until a capture needs the process, or for kOfferLifetime.
#ifndef LOCKSTEP_DAEMON_KINETO_DYNO_OFFERS_H_
#define LOCKSTEP_DAEMON_KINETO_DYNO_OFFERS_H_

#include <sys/types.h>

#include <map>

#include "base/clock.h"
#include "base/log/audit_log.h"
#include "base/log/log.h"
#include "base/time.h"
#include "daemon/kineto/dyno_server.h"
#include "daemon/kineto/kineto_captures.h"
#include "daemon/kineto/kineto_processes.h"
#include "daemon/kineto/kineto_server.h"
#include "daemon/node/process.h"

namespace lockstep::daemon {

// The main thread.
class DynoOffers final : public DynoHandler {
 public:
  // All references outlive this. Processes that `captures` holds are busy.
  DynoOffers(const Clock& clock, const KinetoProcesses& processes, const KinetoCaptures& captures,
             KinetoServer& server, AuditLog& audit, Log& log)
      : clock_(clock),
        processes_(processes),
        captures_(captures),
        server_(server),
        audit_(audit),
        log_(log) {}

  DynoTriggered Trigger(uid_t caller, const DynoTrigger& trigger) override;
  // Ends the request of a process that has taken it.
  void OnPoll(const KinetoPoll& poll);
  // Withdraws the request of the process, if it has one.
  void End(const ProcessId& process);

 private:
  static constexpr Nanos kOfferLifetime = Nanos::Seconds(30);
  struct Offer {
    MonoTime since;
    bool delivered = false;  // an answer to a poll has held the request
  };

  const Clock& clock_;
  const KinetoProcesses& processes_;
  const KinetoCaptures& captures_;
  KinetoServer& server_;
  AuditLog& audit_;
  Log& log_;
  std::map<ProcessId, Offer> offers_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_KINETO_DYNO_OFFERS_H_
