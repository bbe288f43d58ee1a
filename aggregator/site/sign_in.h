// SignIn gives browsers access to the aggregator's pages, because a browser cannot send the token with an
// address that the user types.
//
// The page at / is the same for everyone and contains no data. It sends its proof once (a token as
// Authorization: Bearer, or a user's certificate) to /session. The answer is a path of 256 random bits and a
// cookie of 256 bits for that path. The pages are below that path and require the cookie.
//
// Neither secret suffices alone. A browser sends a cookie to every port of its host, including other users'
// servers, but only for paths below the cookie's path. The path in turn is in the browser's history.
//
// A session keeps the proof with which it began, and each request is made with it. A session therefore ends
// with its proof, and after kLasts.
#ifndef LOCKSTEP_AGGREGATOR_SITE_SIGN_IN_H_
#define LOCKSTEP_AGGREGATOR_SITE_SIGN_IN_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "aggregator/captures/callers.h"
#include "base/clock.h"
#include "base/http/http_request.h"
#include "base/http/http_server.h"
#include "base/rpc/token.h"

namespace lockstep::aggregator {

// One thread. No secret is ever logged.
class SignIn {
 public:
  static constexpr Nanos kLasts = Nanos::Seconds(12 * 3600);
  static constexpr size_t kMostSessions = 256;  // beyond, the oldest ends

  // kEncrypted: the port has TLS, so browsers send the cookie in TLS only.
  enum class Port : uint8_t { kPlain, kEncrypted };
  SignIn(std::shared_ptr<const Clock> clock, Port port) : clock_(std::move(clock)), port_(port) {}

  // A request of a session. Valid until the next call.
  struct Inside {
    const HttpProofs* proofs = nullptr;
    std::string_view path;  // below the session's path, beginning with '/'
  };
  // Returns nothing if the request has no valid session.
  std::optional<Inside> Find(const HttpRequest& request);
  // Begins a session, and returns the answer to the request. kInternal: the kernel gives no random bits.
  absl::StatusOr<HttpResponse> Begin(HttpProofs proofs);

 private:
  struct Session {
    rpc::Token path;
    rpc::Token cookie;
    HttpProofs proofs;
    MonoTime until;
  };

  const std::shared_ptr<const Clock> clock_;
  const Port port_;
  std::list<Session> sessions_;  // oldest first
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_SITE_SIGN_IN_H_
