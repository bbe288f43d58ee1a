#include "aggregator/site/sign_in.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/rpc/status_macros.h"

namespace lockstep::aggregator {
namespace {

constexpr char kPrefix[] = "/s/";
constexpr absl::string_view kCookie = "lockstep=";

}  // namespace

absl::StatusOr<SignIn> SignIn::Make() {
  LOCKSTEP_ASSIGN_OR_RETURN(rpc::Token path, rpc::Token::Random());
  LOCKSTEP_ASSIGN_OR_RETURN(rpc::Token cookie, rpc::Token::Random());
  return SignIn(std::move(path), std::move(cookie));
}

std::optional<std::string_view> SignIn::Inside(const HttpRequest& request) const {
  std::string_view path = request.path;
  constexpr std::string_view prefix = kPrefix;
  if (path.substr(0, prefix.size()) != prefix) return std::nullopt;
  path.remove_prefix(prefix.size());
  const size_t end = path.find('/');
  if (end == std::string_view::npos || !path_.Matches(path.substr(0, end))) return std::nullopt;
  for (absl::string_view cookie : absl::StrSplit(request.cookie, ';')) {
    cookie = absl::StripAsciiWhitespace(cookie);
    if (absl::ConsumePrefix(&cookie, kCookie) && cookie_.Matches({cookie.data(), cookie.size()}))
      return path.substr(end);
  }
  return std::nullopt;
}

HttpResponse SignIn::Grant() const {
  HttpResponse response;
  response.content_type = "application/json";
  response.body = absl::StrCat("{\"base\": \"", kPrefix, path_.text(), "/\"}\n");
  // Not Secure, because this port has no TLS. Strict, so that links and forms of other pages do not send the
  // cookie.
  response.headers.emplace_back("Set-Cookie", absl::StrCat(kCookie, cookie_.text(), "; Path=", kPrefix,
                                                           path_.text(), "/; HttpOnly; SameSite=Strict"));
  return response;
}

}  // namespace lockstep::aggregator
