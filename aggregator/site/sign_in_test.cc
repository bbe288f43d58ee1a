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
  explicit Browser(const SignIn& sign_in) {
    const HttpResponse response = sign_in.Grant();
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

TEST(SignInTest, ASessionNeedsPathAndCookie) {
  const SignIn sign_in = *SignIn::Make();
  const Browser browser(sign_in);
  EXPECT_THAT(browser.base, MatchesRegex("/s/[0-9a-f]{64}/"));
  EXPECT_EQ(browser.cookie.find(browser.base.substr(3, 64)), std::string::npos)
      << "one does not reveal the other";
  EXPECT_EQ(sign_in.Inside(Request(browser.base + "api/index.json", browser.cookie)), "/api/index.json");
  EXPECT_EQ(sign_in.Inside(Request(browser.base, "a=b; " + browser.cookie + "; c=d")), "/");
  for (const std::string& cookie :
       {std::string(), std::string("lockstep="), browser.cookie + "0", "x" + browser.cookie,
        browser.cookie.substr(0, browser.cookie.size() - 1)}) {
    EXPECT_FALSE(sign_in.Inside(Request(browser.base + "api/index.json", cookie))) << cookie;
  }
  for (const std::string& path :
       {std::string("/"), std::string("/s/"), std::string("/s//api/index.json"),
        std::string("/api/index.json"), browser.base.substr(0, browser.base.size() - 1),
        "/s/x" + browser.base.substr(4) + "api/index.json", browser.base.substr(2) + "api/index.json",
        "/" + browser.base + "api/index.json"}) {
    EXPECT_FALSE(sign_in.Inside(Request(path, browser.cookie))) << path;
  }
}

TEST(SignInTest, TheCookieIsLimitedToItsPathAndSiteAndHttpOnly) {
  const SignIn sign_in = *SignIn::Make();
  const Browser browser(sign_in);
  EXPECT_THAT(browser.set_cookie, HasSubstr("; Path=" + browser.base + ";"));
  EXPECT_THAT(browser.set_cookie, EndsWith("; HttpOnly; SameSite=Strict"));
}

TEST(SignInTest, EachAggregatorHasItsOwnSecrets) {
  const SignIn first = *SignIn::Make(), second = *SignIn::Make();
  const Browser browser(first);
  EXPECT_FALSE(second.Inside(Request(browser.base, browser.cookie)));
}

}  // namespace
}  // namespace lockstep::aggregator
