#include "aggregator/site/sign_in.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::aggregator {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// Stores the answer as a browser does.
struct Browser {
  explicit Browser(SignIn& sign_in, const std::string& token = "the token") {
    const HttpResponse response = *sign_in.Begin({token, ""});
    EXPECT_EQ(response.headers.size(), 1u);
    EXPECT_EQ(response.headers[0].first, "Set-Cookie");
    set_cookie = response.headers[0].second;
    cookie = set_cookie.substr(0, set_cookie.find(';'));
    const size_t begin = response.body.find("/s/");
    base = response.body.substr(begin, response.body.rfind('"') - begin);
  }
  std::string set_cookie, cookie, base;
};

HttpRequest Request(const std::string& path, const std::string& cookie) {
  HttpRequest request;
  request.path = path;
  request.cookie = cookie;
  return request;
}

class StepClock final : public Clock {
 public:
  MonoTime Monotonic() const override { return now; }
  HostTime Realtime() const override { return HostTime(); }
  MonoTime now;
};

class SignInTest : public ::testing::Test {
 protected:
  // Returns the path below the session's; empty without a session.
  std::string Inside(const std::string& path, const std::string& cookie) {
    const HttpRequest request = Request(path, cookie);
    const auto inside = sign_in_.Find(request);
    return inside ? std::string(inside->path) : "";
  }
  const std::shared_ptr<StepClock> clock_ = std::make_shared<StepClock>();
  SignIn sign_in_{clock_, SignIn::Port::kPlain};
};

TEST_F(SignInTest, ASessionNeedsPathAndCookie) {
  const Browser browser(sign_in_);
  EXPECT_THAT(browser.base, MatchesRegex("/s/[0-9a-f]{64}/"));
  EXPECT_EQ(browser.cookie.find(browser.base.substr(3, 64)), std::string::npos)
      << "one does not reveal the other";
  EXPECT_EQ(Inside(browser.base + "api/index.json", browser.cookie), "/api/index.json");
  EXPECT_EQ(Inside(browser.base, "a=b; " + browser.cookie + "; c=d"), "/");
  for (const std::string& cookie :
       {std::string(), std::string("lockstep="), browser.cookie + "0", "x" + browser.cookie,
        browser.cookie.substr(0, browser.cookie.size() - 1)}) {
    EXPECT_EQ(Inside(browser.base + "api/index.json", cookie), "") << cookie;
  }
  for (const std::string& path :
       {std::string("/"), std::string("/s/"), std::string("/s//api/index.json"),
        std::string("/api/index.json"), browser.base.substr(0, browser.base.size() - 1),
        "/s/x" + browser.base.substr(4) + "api/index.json", browser.base.substr(2) + "api/index.json",
        "/" + browser.base + "api/index.json"}) {
    EXPECT_EQ(Inside(path, browser.cookie), "") << path;
  }
}

TEST_F(SignInTest, TheCookieIsLimitedToItsPathAndSiteAndHttpOnly) {
  const Browser browser(sign_in_);
  EXPECT_THAT(browser.set_cookie, HasSubstr("; Path=" + browser.base + ";"));
  EXPECT_THAT(browser.set_cookie, EndsWith("; HttpOnly; SameSite=Strict"));
  SignIn encrypted(clock_, SignIn::Port::kEncrypted);
  EXPECT_THAT(Browser(encrypted).set_cookie, EndsWith("; HttpOnly; Secure; SameSite=Strict"));
}

TEST_F(SignInTest, EachSessionHasItsOwnSecretsAndProof) {
  const Browser first(sign_in_, "first"), second(sign_in_, "second");
  EXPECT_EQ(sign_in_.Find(Request(first.base, first.cookie))->proofs->token, "first");
  EXPECT_EQ(sign_in_.Find(Request(second.base, second.cookie))->proofs->token, "second");
  EXPECT_EQ(Inside(first.base, second.cookie), "");
  EXPECT_EQ(Inside(second.base, first.cookie), "");
}

TEST_F(SignInTest, SessionsEnd) {
  const Browser browser(sign_in_);
  clock_->now = clock_->now + SignIn::kLasts - Nanos(1);
  EXPECT_EQ(Inside(browser.base, browser.cookie), "/");
  clock_->now = clock_->now + Nanos(1);
  EXPECT_EQ(Inside(browser.base, browser.cookie), "");
}

TEST_F(SignInTest, TheOldestSessionEndsForANewOne) {
  const Browser oldest(sign_in_), next(sign_in_);
  for (size_t i = 2; i <= SignIn::kMostSessions; ++i) Browser another(sign_in_);
  EXPECT_EQ(Inside(oldest.base, oldest.cookie), "");
  EXPECT_EQ(Inside(next.base, next.cookie), "/");
}

}  // namespace
}  // namespace lockstep::aggregator
