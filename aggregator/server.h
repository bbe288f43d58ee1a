// An aggregator: ingest, store, analysis and control behind its sockets. lockstep-aggregator runs one for
// ever, and `lockstep trace` one for a single capture.
#ifndef LOCKSTEP_AGGREGATOR_SERVER_H_
#define LOCKSTEP_AGGREGATOR_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "aggregator/captures/capture_session.h"
#include "aggregator/retention.h"
#include "base/log/log.h"
#include "base/rpc/munge.h"
#include "base/rpc/token.h"

namespace lockstep {

// Who turns records/ into report.json and report.txt: an aggregator that stays, beside its own copy; for a
// capture that the CLI runs inside itself, only the CLI, in the user's folder.
enum class ServerAnalysis { kHere, kByTheCaller };

struct ServerOptions {
  // HOST:PORT (with a token only) or unix:PATH (in a folder only this user can enter).
  std::vector<std::string> listen;
  rpc::Token token;
  // By which callers of Control are known, each for their own jobs; null: not, the token alone opens.
  std::shared_ptr<const rpc::CallerCredentials> credentials;
  std::string state_dir;  // made, mode 0700, where it is missing
  Retention retention;
  // Where Prometheus is answered and the pages are (common/metrics/http_server.h, aggregator/site/site.h);
  // empty: nowhere. Where it is not empty, each capture's report.html is made too.
  std::string http;
  ServerAnalysis analysis = ServerAnalysis::kHere;
  ingest::SessionLimits limits;
  // Who did what (common/log/audit_log.h); made where it is missing. Empty: it is not kept.
  std::string audit_file;
  LogSink log = &LogNothing;
};

// Any thread, but Shutdown once. The destructor shuts down too.
class Server {
 public:
  // kInvalidArgument, kFailedPrecondition, kPermissionDenied: the options, with the remedy.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerOptions options);
  virtual ~Server() = default;

  // Where it listens, one for each of options.listen; port 0 is told as the port that it got.
  virtual const std::vector<std::string>& addresses() const = 0;
  // Of options.http, with the port that it got; empty: nowhere.
  virtual std::string http_address() const = 0;
  // Whether a daemon is connected and has told its ranks, after waiting for it.
  virtual bool WaitForDaemon(Nanos at_most) = 0;
  // Ends captures (what they have is kept) and refuses what comes.
  virtual void Shutdown() = 0;
};

// $XDG_STATE_HOME/lockstep; where that is not set, /var/lib/lockstep for root and ~/.local/state/lockstep for
// others.
std::string DefaultStateDir();
// <state_dir>/captures, where captures lie by id.
std::string CapturesFolder(const std::string& state_dir);

}  // namespace lockstep

#endif  // LOCKSTEP_AGGREGATOR_SERVER_H_
