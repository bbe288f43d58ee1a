#include "cli/commands/health.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <string_view>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/fd.h"
#include "base/http/http_server.h"
#include "base/rpc/security.h"
#include "base/tls/authority.h"
#include "gtest/gtest.h"

namespace lockstep::cli {
namespace {

const char kSecret[] = "0123456789abcdef";

std::unique_ptr<HttpServer> Serve(HttpServer::Answer answer, Nanos answer_time = Nanos::Seconds(5)) {
  HttpServerOptions options;
  options.address = "127.0.0.1:0";
  options.check = HttpServer::RequireToken(*rpc::Token::FromText(kSecret));
  options.answer_time = answer_time;
  auto server = HttpServer::Start(std::move(options), std::move(answer));
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

HealthCall Call(const HttpServer& server, const char* token = kSecret) {
  return {server.address(), *token != '\0' ? *rpc::Token::FromText(token) : rpc::Token(), Nanos::Seconds(10)};
}

TEST(Health, PrintsTheHealthLine) {
  const auto server = Serve([](const HttpRequest& request, const HttpCounts&) {
    HttpResponse response;
    response.status = request.path == "/healthz" ? 200 : 404;
    response.body = "ok uplink=up\n";
    return response;
  });
  EXPECT_EQ(*RequestHealth(Call(*server)), "ok uplink=up");
  EXPECT_EQ(RequestHealth(Call(*server, "fedcba9876543210")).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(RequestHealth(Call(*server, "")).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST(Health, ChecksTheServersCertificateBeforeItSendsTheToken) {
  HttpServerOptions options;
  options.address = "0.0.0.0:0";
  int requests = 0;
  options.check = [&requests, token = *rpc::Token::FromText(kSecret)](const HttpRequest& request) {
    ++requests;
    return HttpServer::RequireToken(token)(request);
  };
  options.protect = [] {
    return rpc::TlsForHttp({.token = *rpc::Token::FromText(kSecret)}, tls::Holder::kNode,
                           std::make_shared<SystemClock>(), &LogNothing);
  };
  auto server = HttpServer::Start(std::move(options), [](const HttpRequest&, const HttpCounts&) {
    return HttpResponse{.body = "ok over TLS\n"};
  });
  ASSERT_TRUE(server.ok()) << server.status();
  HealthCall call = Call(**server);
  call.address = absl::StrCat("127.0.0.1", (*server)->address().substr((*server)->address().rfind(':')));
  call.authorities = tls::Authority::OfSecret("another-secret-another")->certificate();
  const absl::Status refused = RequestHealth(call).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(refused.message().find("of another authority"), std::string::npos) << refused;
  call.authorities = tls::Authority::OfSecret(kSecret)->certificate();
  EXPECT_EQ(*RequestHealth(call), "ok over TLS");
  server->reset();
  EXPECT_EQ(requests, 1);
}

TEST(Health, ABrokenOrMissingServerIsAnError) {
  auto server = Serve([](const HttpRequest&, const HttpCounts&) {
    HttpResponse response;
    response.status = 503;
    return response;
  });
  const absl::Status broken = RequestHealth(Call(*server)).status();
  EXPECT_EQ(broken.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(broken.message().find("503"), std::string::npos) << broken;
  const HealthCall call = Call(*server);
  server.reset();
  EXPECT_EQ(RequestHealth(call).status().code(), absl::StatusCode::kUnavailable);
}

TEST(Health, ATooLongResponseIsAnError) {
  auto server = Serve([](const HttpRequest&, const HttpCounts&) {
    HttpResponse response;
    response.body = std::string(1 << 20, 'x');
    return response;
  });
  const absl::Status status = RequestHealth(Call(*server)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("too long"), std::string::npos) << status;
}

// Accepts connections on its own port and never answers.
class Listener {
 public:
  Listener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(fd_.get(), 1), 0);
    EXPECT_EQ(::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
  }
  HealthCall CallWithin(Nanos within) const {
    return {"127.0.0.1:" + std::to_string(port_), rpc::Token(), within};
  }
  int fd() const { return fd_.get(); }

 private:
  Fd fd_;
  int port_ = 0;
};

TEST(Health, TimesOut) {
  const Listener silent;
  EXPECT_EQ(RequestHealth(silent.CallWithin(Nanos::Millis(200))).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST(Health, TimesOutOnASlowResponse) {
  const Listener slow;
  std::thread sender([&] {
    const Fd connection(::accept(slow.fd(), nullptr, nullptr));
    std::string_view next = "HTTP/1.1 200 OK\r\n\r\n";
    while (::send(connection.get(), next.data(), next.size(), MSG_NOSIGNAL) > 0) {
      next = "x";
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  EXPECT_EQ(RequestHealth(slow.CallWithin(Nanos::Millis(200))).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  sender.join();
}

TEST(Health, ExplainsAnInvalidAddress) {
  for (const char* wrong : {"", "9464", ":9464", "127.0.0.1:", "127.0.0.1:port"}) {
    const absl::Status status = RequestHealth({wrong, rpc::Token(), Nanos::Seconds(1)}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

}  // namespace
}  // namespace lockstep::cli
