#include "cli/commands/health.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/http/http_server.h"
#include "gtest/gtest.h"

namespace lockstep::cli {
namespace {

const char kSecret[] = "0123456789abcdef";

std::unique_ptr<metrics::HttpServer> Serve(metrics::HttpServer::Answer answer,
                                           Nanos answer_time = Nanos::Seconds(5)) {
  metrics::HttpServerOptions options;
  options.address = "127.0.0.1:0";
  options.token = *rpc::Token::FromText(kSecret);
  options.answer_time = answer_time;
  auto server = metrics::HttpServer::Start(std::move(options), std::move(answer));
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

HealthCall Call(const metrics::HttpServer& server, const char* token = kSecret) {
  return {server.address(), *token != '\0' ? *rpc::Token::FromText(token) : rpc::Token(), Nanos::Seconds(10)};
}

TEST(Health, IsTheLineOfThePage) {
  const auto server = Serve([](const metrics::HttpRequest& request, const metrics::HttpCounts&) {
    metrics::HttpResponse response;
    response.status = request.path == "/healthz" ? 200 : 404;
    response.body = "ok uplink=up\n";
    return response;
  });
  EXPECT_EQ(*AskHealth(Call(*server)), "ok uplink=up");
  EXPECT_EQ(AskHealth(Call(*server, "fedcba9876543210")).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(AskHealth(Call(*server, "")).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST(Health, OfWhatIsBrokenOrGoneIsAnError) {
  auto server = Serve([](const metrics::HttpRequest&, const metrics::HttpCounts&) {
    metrics::HttpResponse response;
    response.status = 503;
    return response;
  });
  const absl::Status broken = AskHealth(Call(*server)).status();
  EXPECT_EQ(broken.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(broken.message().find("503"), std::string::npos) << broken;
  const HealthCall call = Call(*server);
  server.reset();
  EXPECT_EQ(AskHealth(call).status().code(), absl::StatusCode::kUnavailable);
}

TEST(Health, DoesNotWaitForever) {
  // Accepts nobody: the kernel does, and then says nothing.
  Fd silent(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  ASSERT_EQ(::bind(silent.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(silent.get(), 1), 0);
  ASSERT_EQ(::getsockname(silent.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  const HealthCall call{"127.0.0.1:" + std::to_string(ntohs(address.sin_port)), rpc::Token(),
                        Nanos::Millis(200)};
  EXPECT_EQ(AskHealth(call).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(Health, ExplainsAnAddressThatIsNone) {
  for (const char* wrong : {"", "9464", ":9464", "127.0.0.1:", "127.0.0.1:port"}) {
    const absl::Status status = AskHealth({wrong, rpc::Token(), Nanos::Seconds(1)}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

}  // namespace
}  // namespace lockstep::cli
