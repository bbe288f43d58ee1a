#include "base/metrics/endpoint.h"

#include <memory>
#include <string>

#include "base/http/http_client_fake.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kEndpointToken[] = "0123456789abcdef0123456789abcdef";

class EndpointTest : public testing::Test {
 protected:
  void SetUp() override {
    EndpointSource source;
    source.fill = [this](Page& page) {
      page.Gauge("lockstep_test_answer", "The answer.").Count(42);
      return trouble_;
    };
    source.health = [this]() -> absl::StatusOr<std::string> {
      if (!trouble_.ok()) return trouble_;
      return "ok";
    };
    HttpServerOptions options;
    options.address = "127.0.0.1:0";
    EXPECT_THAT(std::string(Endpoint::Start(options, "lockstep_test", source).status().message()),
                HasSubstr("--token-file"));
    options.check = HttpServer::RequireToken(*rpc::Token::FromText(kEndpointToken));
    auto endpoint = Endpoint::Start(options, "lockstep_test", source);
    ASSERT_TRUE(endpoint.ok()) << endpoint.status();
    endpoint_ = *std::move(endpoint);
  }
  std::string Ask(const std::string& path) {
    return Get(endpoint_->address(), path, std::string("Authorization: Bearer ") + kEndpointToken + "\r\n");
  }

  absl::Status trouble_;  // set only between requests
  std::unique_ptr<Endpoint> endpoint_;
};

TEST_F(EndpointTest, ServesMetricsOfProgramPortAndProcess) {
  EXPECT_THAT(Ask("/nothing"), StartsWith("HTTP/1.1 404 "));
  const std::string answer = Ask("/metrics");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_THAT(answer, HasSubstr("\nlockstep_test_answer 42\n"));
  EXPECT_THAT(answer, HasSubstr("\nlockstep_test_http_requests_total{code=\"404\"} 1\n"));
  EXPECT_THAT(answer, HasSubstr("\nlockstep_test_http_requests_total{code=\"200\"} 0\n"))
      << "this one is not answered yet";
  EXPECT_THAT(answer, HasSubstr("\nprocess_resident_memory_bytes "));
}

TEST_F(EndpointTest, RefusesRequestsWithoutTheToken) {
  for (const char* path : {"/metrics", "/healthz", "/nothing"})
    EXPECT_THAT(Get(endpoint_->address(), path), StartsWith("HTTP/1.1 401 "));
}

TEST_F(EndpointTest, HealthIsOneLine) { EXPECT_EQ(BodyOf(Ask("/healthz")), "ok\n"); }

TEST_F(EndpointTest, ReportsAProgramThatDoesNotAnswer) {
  trouble_ = absl::DeadlineExceededError("the main loop does not answer");
  for (const char* path : {"/metrics", "/healthz"}) {
    EXPECT_THAT(Ask(path), StartsWith("HTTP/1.1 503 "));
    EXPECT_EQ(BodyOf(Ask(path)), "the main loop does not answer\n");
  }
}

}  // namespace
}  // namespace lockstep::metrics
