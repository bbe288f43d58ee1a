// Server is an aggregator: ingest, store, analysis and control behind its sockets. lockstep-aggregator runs
// one permanently; `lockstep trace` runs one for a single capture.
#ifndef LOCKSTEP_AGGREGATOR_SERVER_H_
#define LOCKSTEP_AGGREGATOR_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "aggregator/captures/session_limits.h"
#include "aggregator/reports/analyst.h"
#include "aggregator/retention.h"
#include "base/access/roles.h"
#include "base/log/audit_log.h"
#include "base/log/log.h"
#include "base/rpc/munge.h"
#include "base/rpc/security.h"
#include "base/time.h"

namespace lockstep::aggregator {

// Name and release of the program, as it states them to others.
inline constexpr char kProgramVersion[] = "lockstep-aggregator " LOCKSTEP_VERSION;

// The program that makes report.json and report.txt from records/. A permanent aggregator writes them beside
// its own copy. For a capture that the CLI runs in its own process, only the CLI writes them, into the user's
// folder.
enum class ServerAnalysis { kHere, kByTheCaller };

struct ServerOptions {
  // HOST:PORT or unix:PATH (in a folder that only this user can enter).
  std::vector<std::string> listen;
  // Protects TCP connections and identifies callers. Its token gives access to all jobs.
  rpc::SecuritySettings security;
  // Identifies the callers of Control, so that each reaches only their own jobs. Null: callers are not
  // identified, and the token alone gives access.
  std::shared_ptr<const rpc::CallerCredentials> credentials;
  // Rights of users who are identified by MUNGE or a certificate.
  RoleSettings roles;
  std::string state_dir;  // created with mode 0700 if it is missing
  Retention retention;
  // Address of the metrics port and the pages (base/http/http_server.h, aggregator/site/site.h); empty: off.
  // With an address, each capture also gets a report.html.
  std::string http;
  ServerAnalysis analysis = ServerAnalysis::kHere;
  // Makes the reports and the samples. Not null.
  std::shared_ptr<Analyst> analyst;
  aggregator::SessionLimits limits;
  // Only with kHere. A wait of this length is a hang; 0: none is noticed (aggregator/notice/hang_watch.h).
  Nanos hang_after;
  // Captures after an alarm (aggregator/notice/alarm_policy.h): the most per hour, and the length of those of
  // a slow rank.
  size_t alarm_captures = 0;
  uint32_t alarm_steps = 5;
  // Program that runs after an alarm (aggregator/notice/alarm_command.h); empty: none.
  std::string alarm_command;
  // File of the audit log (base/log/audit_log.h), created if it is missing. Empty: no audit log.
  std::string audit_file;
  AuditCopy audit_copy = AuditCopy::kNone;
  LogSink log = &LogNothing;
};

// Any thread may call all functions, but Shutdown only once. The destructor also shuts down.
class Server {
 public:
  // kInvalidArgument, kFailedPrecondition, kPermissionDenied: an option is wrong; the error states the
  // remedy.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerOptions options);
  virtual ~Server() = default;

  // The addresses of options.listen in the same order, with port 0 replaced by the actual port.
  virtual const std::vector<std::string>& addresses() const = 0;
  // The address of options.http with the actual port; empty: off.
  virtual std::string http_address() const = 0;
  // Waits at most `at_most` for a daemon. Returns true if one is connected and has sent its ranks.
  virtual bool WaitForDaemon(Nanos at_most) = 0;
  // Calls `call` once per `period` until Shutdown, on a thread that serves the daemons' streams. The calls
  // end if all these threads are stuck, or the lock of the daemons or of the captures. Call it at most once.
  virtual void Every(Nanos period, std::function<void()> call) = 0;
  // Ends running captures, which keep their records, and refuses new requests.
  virtual void Shutdown() = 0;
};

// Returns whether callers of the HTTP port at that address can prove who they are: by a token, or by a
// certificate, which needs TLS.
bool HttpHasProofs(const std::string& http, const rpc::GivenSettings& given);

// Returns $XDG_STATE_HOME/lockstep. If that is not set, /var/lib/lockstep for root and
// ~/.local/state/lockstep for other users.
std::string DefaultStateDir();
// Returns <state_dir>/captures, which holds one folder per capture, named by its id.
std::string CapturesFolder(const std::string& state_dir);

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_SERVER_H_
