// The aggregator's pages: what is there, and who may see it. Read-only. docs/operations.md says how it is
// used, docs/decisions/0007 why so.
//
//   /                      the page: the same for everybody, without a word of what is here
//   /session               for the token, where the rest is for a browser (sign_in.h); below that, or here
//   with the token: …/api/index.json       jobs and captures (index.h) …/captures/ID/FILE     one of
//   KeptCaptures::kFiles
//
// A path is looked up, never joined: ID in the captures that were found, FILE in that list.
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

namespace lockstep::site {

// Is it a host that leads to this machine and nowhere else: localhost, 127.x.x.x, ::1? Without a port, and
// IPv6 without brackets.
bool IsLoopbackHost(std::string_view host);

struct SiteOptions {
  std::string program;              // as Index::program
  std::vector<std::string> listen;  // as Index::listen
  // The port is on loopback: a request by another name comes from a page whose own name was made to lead
  // here.
  enum class Port { kLoopback, kAnywhere } port = Port::kLoopback;
};

// One thread: that of the port.
class Site {
 public:
  // `hub` and `audit` outlive it, and so does what `now`, a clock that only goes forward, stands on.
  Site(SiteOptions options, const ingest::Hub& hub, SignIn sign_in, AuditLog& audit,
       std::function<MonoTime()> now);

  // Whether the request needs no token.
  bool Admits(const metrics::HttpRequest& request) const;
  // Of a request that was admitted or carries the token.
  metrics::HttpResponse Answer(const metrics::HttpRequest& request);

 private:
  metrics::HttpResponse Find(const metrics::HttpRequest& request);
  metrics::HttpResponse CaptureFile(const metrics::HttpRequest& request, std::string_view below);
  std::vector<ingest::RunningCapture> Refresh();
  Index MakeIndex();

  const SiteOptions options_;
  const ingest::Hub& hub_;
  const SignIn sign_in_;
  AuditLog& audit_;
  KeptCaptures kept_;
};

// The page, made from web/.
std::string_view IndexPage();

}  // namespace lockstep::site

#endif  // LOCKSTEP_AGGREGATOR_SITE_SITE_H_
