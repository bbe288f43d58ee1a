// Site serves the aggregator's pages. Read-only. docs/operations.md describes their use, docs/decisions/0007
// the reasons for this design.
//
//   /                       the page: the same for everyone, without data
//   /session                exchanges a proof for a session, which a browser needs for the rest (sign_in.h)
//   …/api/index.json        jobs and captures (index.h); below the session's path, or at / with a proof
//   …/captures/ID/FILE      one of KeptCaptures::kFiles; same access
//
// A proof is a token or a user's certificate (Callers::OfHttp). Each caller gets the jobs and captures that
// they may see, as over gRPC. /metrics has all jobs, so it is for those who may see all.
//
// ID and FILE are looked up in lists of known captures and files. They are never used to build a path.
#ifndef LOCKSTEP_AGGREGATOR_SITE_SITE_H_
#define LOCKSTEP_AGGREGATOR_SITE_SITE_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "aggregator/captures/callers.h"
#include "aggregator/ingest/hub.h"
#include "aggregator/site/index.h"
#include "aggregator/site/kept_captures.h"
#include "aggregator/site/sign_in.h"
#include "base/http/http_request.h"
#include "base/http/http_server.h"
#include "base/log/audit_log.h"

namespace lockstep::aggregator {

// Returns true if the host is localhost, 127.x.x.x or ::1, which always mean this machine. `host` has no
// port, and IPv6 has no brackets.
bool IsLoopbackHost(std::string_view host);

struct SiteOptions {
  std::string program;              // see Index::program
  std::vector<std::string> listen;  // see Index::listen
  // kLoopback: the port is on loopback. A request for another host name then comes from a page whose name was
  // made to resolve to this machine (DNS rebinding).
  enum class Port { kLoopback, kAnywhere } port = Port::kLoopback;
  // Adds what was noticed in running jobs, of those that the caller may see.
  std::function<void(const Caller&, v1::StatusReply&)> add_noticed = [](const Caller&, v1::StatusReply&) {};
};

// One thread: the port's.
class Site {
 public:
  // `hub`, `callers`, `audit` and the objects that `now` uses outlive the site. `now` is a monotonic clock.
  Site(SiteOptions options, const aggregator::Hub& hub, const Callers& callers, SignIn sign_in,
       AuditLog& audit, std::function<MonoTime()> now);

  // Decides whether a request to the port may be answered, also one for /metrics or /healthz. Refusals are
  // written to the audit log.
  absl::Status Check(const HttpRequest& request);
  // Answers a request that Check has admitted.
  HttpResponse Answer(const HttpRequest& request);

 private:
  struct Visit {
    Caller caller;
    std::string_view path;  // without the session's path
  };
  absl::StatusOr<Visit> VisitOf(const HttpRequest& request);
  HttpResponse Find(const HttpRequest& request);
  HttpResponse BeginSession(const HttpRequest& request, const Caller& caller);
  HttpResponse CaptureFile(const Caller& caller, std::string_view below);
  std::vector<aggregator::RunningCapture> Refresh();
  Index MakeIndex(const Caller& caller);

  const SiteOptions options_;
  const aggregator::Hub& hub_;
  const Callers& callers_;
  SignIn sign_in_;
  AuditLog& audit_;
  KeptCaptures kept_;
};

// Returns the page that was built from web/.
std::string_view IndexPage();

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_SITE_SITE_H_
