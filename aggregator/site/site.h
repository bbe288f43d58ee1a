// Site serves the aggregator's pages. Read-only. docs/operations.md describes their use, docs/decisions/0007
// the reasons for this design.
//
//   /                       the page: the same for everyone, without data
//   /session                exchanges the token for a session, which a browser needs for the rest (sign_in.h)
//   …/api/index.json        jobs and captures (index.h); below the session's path, or at / with the token
//   …/captures/ID/FILE      one of KeptCaptures::kFiles; same access
//
// ID and FILE are looked up in lists of known captures and files. They are never used to build a path.
#ifndef LOCKSTEP_AGGREGATOR_SITE_SITE_H_
#define LOCKSTEP_AGGREGATOR_SITE_SITE_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

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
};

// One thread: the port's.
class Site {
 public:
  // `hub`, `audit` and the objects that `now` uses outlive the site. `now` is a monotonic clock.
  Site(SiteOptions options, const aggregator::Hub& hub, SignIn sign_in, AuditLog& audit,
       std::function<MonoTime()> now);

  // Returns true if the request needs no token.
  bool Admits(const HttpRequest& request) const;
  // Answers a request that was admitted or carries the token.
  HttpResponse Answer(const HttpRequest& request);

 private:
  HttpResponse Find(const HttpRequest& request);
  HttpResponse CaptureFile(const HttpRequest& request, std::string_view below);
  std::vector<aggregator::RunningCapture> Refresh();
  Index MakeIndex();

  const SiteOptions options_;
  const aggregator::Hub& hub_;
  const SignIn sign_in_;
  AuditLog& audit_;
  KeptCaptures kept_;
};

// Returns the page that was built from web/.
std::string_view IndexPage();

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_SITE_SITE_H_
