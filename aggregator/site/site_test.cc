#include "aggregator/site/site.h"

#include <chrono>
#include <random>
#include <thread>

#include "aggregator/site/site_fixture.h"
#include "base/http/http_client_fake.h"
#include "base/log/line_sink_fake.h"
#include "base/read_clock.h"
#include "base/rpc/job_token.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::aggregator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";
constexpr char kId[] = "20260301-120000-0a1b2c";

class SiteTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.Add(kId);
    Start(SiteOptions::Port::kLoopback);
  }
  void Start(SiteOptions::Port port) {
    server_.reset();
    aggregator::HubOptions hub;
    hub.captures.folder = folder_.path();
    hub_ = std::make_unique<aggregator::Hub>(hub, clock_);
    site_ = std::make_unique<Site>(SiteOptions{.program = "test", .listen = {"127.0.0.1:7077"}, .port = port},
                                   *hub_, callers_.all(), SignIn(clock_at_, SignIn::Port::kPlain), audit_,
                                   &aggregator::MonoNow);
    HttpServerOptions options;
    options.address = "127.0.0.1:0";
    options.check = [this](const HttpRequest& request) { return site_->Check(request); };
    auto server = HttpServer::Start(
        options, [this](const HttpRequest& request, const HttpCounts&) { return site_->Answer(request); });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::string Ask(const std::string& path, const std::string& headers = "") {
    return Get(server_->address(), path, headers);
  }
  static std::string Bearer(const std::string& token = kToken) {
    return "Authorization: Bearer " + token + "\r\n";
  }
  // Starts a session as a browser does: sets the base path and the Cookie header.
  void Open() {
    const std::string answer = Ask("/session", Bearer());
    ASSERT_THAT(answer, StartsWith("HTTP/1.1 200 "));
    const std::string body = BodyOf(answer);
    base_ = body.substr(body.find("/s/"), 68);
    const size_t cookie = answer.find("lockstep=");
    cookie_ = "Cookie: " + answer.substr(cookie, answer.find(';', cookie) - cookie) + "\r\n";
  }

  CapturesFolder folder_;
  const HttpCallers callers_{kToken};
  const std::shared_ptr<const Clock> clock_at_ = std::make_shared<SystemClock>();
  aggregator::SystemJobClock clock_;
  SystemClock audit_clock_;
  RecordedLines audited_;
  AuditLog audit_{
      {.program = "test", .user_name = nullptr}, std::make_unique<FakeLineSink>(audited_), audit_clock_};
  std::unique_ptr<aggregator::Hub> hub_;
  std::unique_ptr<Site> site_;
  std::unique_ptr<HttpServer> server_;
  std::string base_, cookie_;
};

TEST_F(SiteTest, ThePageIsPublicAndContainsNoData) {
  const std::string answer = Ask("/");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Type: text/html; charset=utf-8\r\n"));
  const std::string page = BodyOf(answer);
  EXPECT_THAT(page.substr(0, 20), StartsWith("<!doctype html>"));
  for (const char* secret : {kId, "llama-7b", "host-a"})
    EXPECT_EQ(page.find(secret), std::string::npos) << secret;
}

TEST_F(SiteTest, ServesNothingElseWithoutTheToken) {
  Open();
  for (const std::string& path :
       {std::string("/session"), std::string("/api/index.json"),
        std::string("/captures/") + kId + "/report.html", std::string("/s/"), std::string("/nothing"),
        base_ + "api/index.json", "/?token=" + std::string(kToken)}) {
    const std::string answer = Ask(path);
    // A token in the address is ignored, so the answer is the public page.
    EXPECT_THAT(answer.substr(0, 20), StartsWith(path[1] == '?' ? "HTTP/1.1 200 " : "HTTP/1.1 401 ")) << path;
    EXPECT_EQ(answer.find("llama-7b"), std::string::npos) << path;
  }
  for (const std::string& wrong : {std::string("x"), std::string(kToken) + "0", std::string(31, '0')}) {
    EXPECT_THAT(Ask("/session", Bearer(wrong)),
                AllOf(StartsWith("HTTP/1.1 401 "), Not(HasSubstr("Set-Cookie"))))
        << wrong;
  }
  EXPECT_THAT(Ask(base_ + "api/index.json", "Cookie: lockstep=" + std::string(64, '0') + "\r\n"),
              StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(Ask("/api/index.json", cookie_), StartsWith("HTTP/1.1 401 ")) << "the cookie alone";
  EXPECT_THAT(Ask("/session", cookie_), StartsWith("HTTP/1.1 401 "));
}

TEST_F(SiteTest, ASessionSeesTheIndexAndTheReports) {
  Open();
  const std::string index = BodyOf(Ask(base_ + "api/index.json", cookie_));
  EXPECT_THAT(index, AllOf(HasSubstr("\"schema\": \"lockstep.index/1\""), HasSubstr(kId),
                           HasSubstr("STRAGGLER rank 1")));
  EXPECT_EQ(BodyOf(Ask("/api/index.json", Bearer())), index) << "for programs: the same with the token";
  const std::string html = Ask(base_ + "captures/" + kId + "/report.html", cookie_);
  EXPECT_EQ(BodyOf(html), std::string("<!doctype html>the report of ") + kId);
  EXPECT_THAT(html, HasSubstr("\r\nContent-Type: text/html; charset=utf-8\r\n"));
  EXPECT_THAT(html,
              HasSubstr("\r\nContent-Security-Policy: sandbox allow-scripts; frame-ancestors 'none'\r\n"));
  EXPECT_THAT(Ask(base_ + "captures/" + kId + "/report.json", cookie_),
              HasSubstr("\r\nContent-Type: application/json\r\n"));
  EXPECT_THAT(Ask(base_ + "captures/" + kId + "/report.txt", cookie_),
              HasSubstr("\r\nContent-Type: text/plain; charset=utf-8\r\n"));
}

TEST_F(SiteTest, ServesAReportBeforeTheFirstIndexRequest) {
  EXPECT_THAT(Ask(std::string("/captures/") + kId + "/report.txt", Bearer()), HasSubstr("STRAGGLER rank 1"));
}

TEST_F(SiteTest, EveryAnswerForbidsReferrersAndFraming) {
  Open();
  for (const std::string& path : {std::string("/"), base_ + "api/index.json",
                                  base_ + "captures/" + kId + "/report.html", base_ + "nothing"}) {
    const std::string answer = Ask(path, cookie_);
    for (const char* header :
         {"Referrer-Policy: no-referrer", "X-Frame-Options: DENY", "X-Content-Type-Options: nosniff",
          "Cache-Control: no-store", "Cross-Origin-Resource-Policy: same-origin"}) {
      EXPECT_THAT(answer, HasSubstr(std::string("\r\n") + header + "\r\n")) << path;
    }
    EXPECT_THAT(answer, HasSubstr("frame-ancestors 'none'")) << path;
  }
}

TEST_F(SiteTest, LooksUpPathsAndNeverJoinsThem) {
  folder_.Write("secret", "secret");
  Open();
  const std::string captures = base_ + "captures/";
  for (const std::string& path :
       {captures, captures + kId, captures + kId + "/", captures + kId + "/records/manifest.json",
        captures + "../secret", captures + "..%2fsecret", captures + kId + "/../../secret",
        captures + kId + "/%2e%2e/secret", captures + kId + "//report.html", captures + kId + "/report.html/",
        captures + kId + "/report.html%00", captures + "/" + kId + "/report.html",
        captures + "./" + kId + "/report.html", captures + ".//report.html", base_ + "api/",
        base_ + "api/index.json/", base_ + "/api/index.json", base_ + "API/index.json"}) {
    EXPECT_THAT(Ask(path, cookie_), AllOf(StartsWith("HTTP/1.1 404 "), Not(HasSubstr("secret")))) << path;
  }
}

TEST_F(SiteTest, RefusesOtherHostNamesAtALoopbackPort) {
  const auto request_from = [&](const std::string& host) {
    FakeHttpClient client(server_->address());
    client.Send("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
    return client.Receive();
  };
  for (const char* host :
       {"localhost", "localhost:1", "127.0.0.1", "127.0.0.1:8080", "127.1.2.3", "[::1]:80"}) {
    EXPECT_THAT(request_from(host), StartsWith("HTTP/1.1 200 ")) << host;
  }
  for (const char* host : {"evil.example", "evil.example:9465", "127.0.0.1.evil.example",
                           "localhost.evil.example", "127.evil.example:80", "[::2]", "[", "", "192.0.2.1"}) {
    EXPECT_THAT(request_from(host), StartsWith("HTTP/1.1 403 ")) << host;
  }
  Start(SiteOptions::Port::kAnywhere);
  EXPECT_THAT(request_from("head.cluster:9465"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(SiteTest, DamagedRequestsGetNoDataOfACapture) {
  Open();
  const std::string whole =
      "GET " + base_ + "captures/" + kId + "/report.txt HTTP/1.1\r\nHost: localhost\r\n" + cookie_ + "\r\n";
  std::mt19937 random(11);
  int served = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = whole;
    const size_t at = random() % damaged.size();
    damaged[at] = static_cast<char>(random());
    const auto request = ParseHttpRequest(damaged);
    if (!request || request->status != 200 || !site_->Check(*request).ok() || request->path == "/") continue;
    HttpResponse response = site_->Answer(*request);
    if (response.status != 200) continue;
    ++served;
    // Only damage without effect may be served: the path must still be the requested one.
    EXPECT_THAT(request->path, ::testing::AnyOf(base_ + "captures/" + kId + "/report.txt")) << damaged;
  }
  EXPECT_GT(served, 0) << "some damage does not matter; else nothing was tested";
}

// The capture is of job llama-7b, whose user is 1000.
class SiteJobTokenTest : public SiteTest {
 protected:
  static std::string TokenFor(const std::string& job, uid_t owner, Nanos valid = Nanos::Seconds(60)) {
    return *rpc::MakeJobToken(kToken, {.job = job,
                                       .owner = owner,
                                       .role = rpc::JobClaims::Role::kViewer,
                                       .until = ReadRealtime() + valid,
                                       .authority = ""});
  }
  const std::string report_ = std::string("/captures/") + kId + "/report.txt";
};

TEST_F(SiteJobTokenTest, ShowsOneJobOfOneUser) {
  const std::string mine = TokenFor("llama-7b", 1000);
  EXPECT_THAT(Ask("/api/index.json", Bearer(mine)), HasSubstr(kId));
  EXPECT_THAT(Ask(report_, Bearer(mine)), HasSubstr("STRAGGLER rank 1"));
  for (const std::string& other : {TokenFor("other", 1000), TokenFor("llama-7b", 1001)}) {
    EXPECT_THAT(Ask("/api/index.json", Bearer(other)),
                AllOf(StartsWith("HTTP/1.1 200 "), Not(HasSubstr(kId)), Not(HasSubstr("llama-7b"))));
    EXPECT_THAT(Ask(report_, Bearer(other)), AllOf(StartsWith("HTTP/1.1 403 "), HasSubstr("does not belong"),
                                                   Not(HasSubstr("STRAGGLER"))));
  }
  EXPECT_THAT(Ask(report_, Bearer(TokenFor("llama-7b", 1000, -Nanos::Seconds(1)))),
              AllOf(StartsWith("HTTP/1.1 401 "), HasSubstr("has expired")));
  EXPECT_THAT(audited_.lines().back(), HasSubstr("\"result\":\"refused\""));
}

TEST_F(SiteJobTokenTest, MetricsAreForThoseWhoMaySeeAll) {
  EXPECT_THAT(Ask("/metrics", Bearer(TokenFor("llama-7b", 1000))), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(Ask("/metrics", Bearer()), Not(StartsWith("HTTP/1.1 403 "))) << "the site has none itself";
}

TEST_F(SiteJobTokenTest, ASessionEndsWithItsToken) {
  const std::string answer = Ask("/session", Bearer(TokenFor("llama-7b", 1000, Nanos::Millis(1500))));
  const std::string body = BodyOf(answer);
  const std::string base = body.substr(body.find("/s/"), 68);
  const size_t begin = answer.find("lockstep=");
  const std::string cookie = "Cookie: " + answer.substr(begin, answer.find(';', begin) - begin) + "\r\n";
  EXPECT_THAT(Ask(base + "api/index.json", cookie), AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr(kId)));
  std::this_thread::sleep_for(std::chrono::seconds(2));
  EXPECT_THAT(Ask(base + "api/index.json", cookie), StartsWith("HTTP/1.1 401 "));
}

TEST_F(SiteTest, AuditsSessionsAndReads) {
  Open();
  Ask(base_ + "captures/" + kId + "/report.txt", cookie_);
  Ask(std::string("/captures/") + kId + "/report.json", Bearer());
  Ask(base_ + "captures/none/report.txt", cookie_);
  const std::vector<std::string> audited = audited_.lines();
  ASSERT_EQ(audited.size(), 3u);
  EXPECT_THAT(audited[0], HasSubstr("\"what\":\"session\",\"by\":\"token\",\"peer\":\"127.0.0.1:"));
  EXPECT_THAT(audited[1], HasSubstr("\"what\":\"read\",\"by\":\"session\""));
  EXPECT_THAT(audited[1], HasSubstr(std::string("\"capture\":\"") + kId + "\",\"file\":\"report.txt\""));
  EXPECT_THAT(audited[2], HasSubstr("\"by\":\"token\""));
  for (const std::string& line : audited)
    EXPECT_EQ(line.find(base_.substr(3, 60)), std::string::npos) << line;
}

}  // namespace
}  // namespace lockstep::aggregator
