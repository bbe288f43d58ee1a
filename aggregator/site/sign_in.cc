#include "aggregator/site/sign_in.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/rpc/status_macros.h"

namespace lockstep::aggregator {
namespace {

constexpr char kPrefix[] = "/s/";
constexpr absl::string_view kCookie = "lockstep=";

bool HasCookie(const HttpRequest& request, const rpc::Token& wanted) {
  for (absl::string_view cookie : absl::StrSplit(request.cookie, ';')) {
    cookie = absl::StripAsciiWhitespace(cookie);
    if (absl::ConsumePrefix(&cookie, kCookie) && wanted.Matches({cookie.data(), cookie.size()})) return true;
  }
  return false;
}

}  // namespace

std::optional<SignIn::Inside> SignIn::Find(const HttpRequest& request) {
  const MonoTime now = clock_->Monotonic();
  sessions_.remove_if([&](const Session& session) { return session.until <= now; });
  std::string_view path = request.path;
  constexpr std::string_view prefix = kPrefix;
  if (path.substr(0, prefix.size()) != prefix) return std::nullopt;
  path.remove_prefix(prefix.size());
  const size_t end = path.find('/');
  if (end == std::string_view::npos) return std::nullopt;
  const auto session = std::find_if(sessions_.begin(), sessions_.end(), [&](const Session& each) {
    return each.path.Matches(path.substr(0, end));
  });
  if (session == sessions_.end() || !HasCookie(request, session->cookie)) return std::nullopt;
  return Inside{&session->proofs, path.substr(end)};
}

absl::StatusOr<HttpResponse> SignIn::Begin(HttpProofs proofs) {
  LOCKSTEP_ASSIGN_OR_RETURN(rpc::Token path, rpc::Token::Random());
  LOCKSTEP_ASSIGN_OR_RETURN(rpc::Token cookie, rpc::Token::Random());
  HttpResponse response;
  response.content_type = "application/json";
  response.body = absl::StrCat("{\"base\": \"", kPrefix, path.text(), "/\"}\n");
  // Strict, so that links and forms of other pages do not send the cookie.
  response.headers.emplace_back(
      "Set-Cookie", absl::StrCat(kCookie, cookie.text(), "; Path=", kPrefix, path.text(), "/; HttpOnly",
                                 port_ == Port::kEncrypted ? "; Secure" : "", "; SameSite=Strict"));
  if (sessions_.size() >= kMostSessions) sessions_.pop_front();
  sessions_.push_back({std::move(path), std::move(cookie), std::move(proofs), clock_->Monotonic() + kLasts});
  return response;
}

}  // namespace lockstep::aggregator
