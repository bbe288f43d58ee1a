#include "base/http/http_request.h"

#include <random>
#include <string>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

// A request as Prometheus 2.42 sends it.
constexpr char kScrape[] =
    "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9464\r\nUser-Agent: Prometheus/2.42.0\r\nAccept: "
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1\r\n"
    "Accept-Encoding: gzip\r\nAuthorization: Bearer 0123456789abcdef\r\nX-Prometheus-Scrape-Timeout-Seconds: "
    "1\r\n\r\n";

int StatusOf(const std::string& request) {
  const auto parsed = ParseHttpRequest(request);
  return parsed ? parsed->status : 0;
}

TEST(HttpRequest, ParsesAPrometheusScrape) {
  const auto request = ParseHttpRequest(kScrape);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->status, 200);
  EXPECT_EQ(request->path, "/metrics");
  EXPECT_EQ(request->authorization, "Bearer 0123456789abcdef");
  EXPECT_FALSE(request->head);
}

TEST(HttpRequest, ParsesOtherValidForms) {
  EXPECT_EQ(StatusOf("GET / HTTP/1.0\r\n\r\n"), 200) << "1.0 needs no host";
  EXPECT_TRUE(ParseHttpRequest("HEAD /healthz HTTP/1.1\r\nhOST:x\r\n\r\n")->head);
  EXPECT_EQ(ParseHttpRequest("GET /metrics?name[]=up HTTP/1.0\r\n\r\n")->path, "/metrics");
  EXPECT_EQ(ParseHttpRequest("GET / HTTP/1.0\r\nAUTHORIZATION: \t a  b \t\r\n\r\n")->authorization, "a  b");
  EXPECT_EQ(StatusOf("GET / HTTP/1.0\r\nContent-Length: 0\r\n\r\n"), 200);
}

TEST(HttpRequest, ARequestIsCompleteAtItsEmptyLine) {
  const std::string whole = kScrape;
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(ParseHttpRequest(whole.substr(0, length))) << length;
  EXPECT_EQ(ParseHttpRequest(whole + "POST / HTTP/1.1\r\n\r\n")->path, "/metrics")
      << "one request per connection";
}

TEST(HttpRequest, RefusalsCarryAStatusCode) {
  EXPECT_EQ(StatusOf("POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), 405);
  EXPECT_EQ(StatusOf("GET /metrics HTTP/2.0\r\nHost: x\r\n\r\n"), 505);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"), 413);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"), 413);
  EXPECT_EQ(StatusOf("GET / HTTP/1.0\r\nX: " + std::string(kLargestRequest, 'x')), 431)
      << "before its end has come";
  EXPECT_EQ(StatusOf("GET / HTTP/1.0\r\nX: " + std::string(kLargestRequest, 'x') + "\r\n\r\n"), 431);
  EXPECT_EQ(StatusOf(std::string(kLargestRequest + 4, '\r')), 431);
}

TEST(HttpRequest, ParsesTheLongestHeadInPiecesOfAnySize) {
  const std::string start = "GET / HTTP/1.0\r\nX: ";
  const std::string head = start + std::string(kLargestRequest - start.size(), 'x') + "\r\n\r\n";
  for (size_t missing = 4; missing > 0; --missing)
    EXPECT_EQ(StatusOf(head.substr(0, head.size() - missing)), 0) << missing;
  EXPECT_EQ(StatusOf(head), 200);
}

TEST(HttpRequest, MalformedRequestsAreBadRequests) {
  for (const std::string& request :
       {std::string("\r\n\r\n"),
        std::string("GET\r\n\r\n"),
        std::string("GET / \r\n\r\n"),
        std::string(" GET / HTTP/1.0\r\n\r\n"),
        std::string("GET  / HTTP/1.0\r\n\r\n"),
        std::string("GET metrics HTTP/1.0\r\n\r\n"),
        std::string("GET /a\tb HTTP/1.0\r\n\r\n"),
        std::string("GET http://x/ HTTP/1.0\r\n\r\n"),
        std::string("GET / FTP/1.0\r\n\r\n"),
        std::string("GET / HTTP/1.1\r\n\r\n"),
        std::string("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
        std::string("GET / HTTP/1.0\r\nNo colon\r\n\r\n"),
        std::string("GET / HTTP/1.0\r\n folded: x\r\n\r\n"),
        std::string("GET / HTTP/1.0\r\nA : x\r\n\r\n"),
        std::string("GET / HTTP/1.0\r\n: x\r\n\r\n"),
        std::string("GET / HTTP/1.0\r\nAuthorization: a\r\nAuthorization: b\r\n\r\n"),
        std::string("GET / HTTP/1.0\r\nCookie: a\r\nCookie: a\r\n\r\n"),
        std::string("GET / HTTP/1.0\r\nAuthorization:\r\nAuthorization: b\r\n\r\n"),
        std::string("GET / HTTP/1.0\nHost: x\r\n\r\n"),
        std::string("GET / HTTP/1.0\r\nX: a\rb\r\n\r\n"),
        std::string("GET /\0 HTTP/1.0\r\n\r\n", 20),
        std::string("GET /\x1b[2J HTTP/1.0\r\n\r\n"),
        std::string("\x16\x03\x01\x02\x00\r\n\r\n", 9)}) {
    EXPECT_EQ(StatusOf(request), 400) << request;
  }
}

TEST(HttpRequest, DamagedRequestsNeverYieldAnotherPath) {
  std::mt19937 random(7);
  const std::string whole = kScrape;
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = whole;
    for (int changes = static_cast<int>(random() % 4); changes >= 0; --changes)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    const auto request = ParseHttpRequest(damaged);
    if (!request || request->status != 200) continue;
    ASSERT_EQ(request->path[0], '/');
    ASSERT_EQ(damaged.substr(damaged.find(' ') + 1, request->path.size()), request->path);
  }
}

}  // namespace
}  // namespace lockstep
