// SignIn gives browsers access to the aggregator's pages, because a browser cannot send the token with an
// address that the user types.
//
// The page at / is the same for everyone and contains no data. It sends the token once (Authorization:
// Bearer) to /session. The answer is a path of 256 random bits and a cookie of 256 bits for that path. The
// pages are below that path and require the cookie.
//
// Neither secret suffices alone. A browser sends a cookie to every port of its host, including other users'
// servers, but only for paths below the cookie's path. The path in turn is in the browser's history. Both
// secrets live as long as this object.
#ifndef LOCKSTEP_AGGREGATOR_SITE_SIGN_IN_H_
#define LOCKSTEP_AGGREGATOR_SITE_SIGN_IN_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/http/http_request.h"
#include "base/http/http_server.h"
#include "base/rpc/token.h"

namespace lockstep::aggregator {

// Immutable; any thread. Neither secret is ever logged.
class SignIn {
 public:
  // kInternal: the kernel gives no random bits.
  static absl::StatusOr<SignIn> Make();

  // Returns the path below the session's path, beginning with '/', or nothing if the request has no valid
  // session.
  std::optional<std::string_view> Inside(const HttpRequest& request) const;
  // Returns the answer to a request with the token.
  HttpResponse Grant() const;

 private:
  SignIn(rpc::Token path, rpc::Token cookie) : path_(std::move(path)), cookie_(std::move(cookie)) {}
  rpc::Token path_;
  rpc::Token cookie_;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_SITE_SIGN_IN_H_
