// Who may see the aggregator's pages: a browser cannot be told to send the token with an address that
// somebody types.
//
// The page at / is the same for everybody and tells nothing. It sends the token once, as a scrape does
// (Authorization: Bearer), to /session, and gets a path of 256 random bits and a cookie of as many for that
// path. Below the path, with the cookie, are the pages. Neither is enough: a browser shows a cookie to every
// port of its host, those of other users of the machine too, but only for paths below the cookie's own; and a
// path stands in the browser's history. Both live as long as this object.
#ifndef LOCKSTEP_AGGREGATOR_SITE_SIGN_IN_H_
#define LOCKSTEP_AGGREGATOR_SITE_SIGN_IN_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/http/http_request.h"
#include "base/http/http_server.h"
#include "base/rpc/token.h"

namespace lockstep::site {

// Immutable; any thread. Neither secret is ever logged.
class SignIn {
 public:
  // kInternal: the kernel gives no random bits.
  static absl::StatusOr<SignIn> Make();

  // The path below the session's, beginning with '/'; nothing where the request is of no session.
  std::optional<std::string_view> Inside(const metrics::HttpRequest& request) const;
  // The answer to who has shown the token.
  metrics::HttpResponse Grant() const;

 private:
  SignIn(rpc::Token path, rpc::Token cookie) : path_(std::move(path)), cookie_(std::move(cookie)) {}
  rpc::Token path_;
  rpc::Token cookie_;
};

}  // namespace lockstep::site

#endif  // LOCKSTEP_AGGREGATOR_SITE_SIGN_IN_H_
