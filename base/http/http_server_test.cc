#include "base/http/http_server.h"

#include <fcntl.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/http/http_client_fake.h"
#include "base/tls/tls_client_fake.h"
#include "base/tls/tls_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

// More bytes than the socket buffers of a loopback connection can hold.
constexpr size_t kHuge = 64u << 20;
constexpr char kToken[] = "0123456789abcdef0123456789abcdef";

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() { options_.address = "127.0.0.1:0"; }
  void Start() {
    auto server = HttpServer::Start(options_, [this](const HttpRequest& request, const HttpCounts& so_far) {
      const std::string& path = request.path;
      HttpResponse response;
      if (path == "/counts") {
        response.body = std::to_string(so_far.displaced) + " displaced, " + std::to_string(so_far.timed_out) +
                        " timed out, " +
                        std::to_string(so_far.answered.count(401) ? so_far.answered.at(401) : 0) +
                        " without token";
      } else if (path == "/certificate") {
        response.body = request.certificate;
      } else if (path == "/file") {
        response.file = Fd(open(file_.c_str(), O_RDONLY | O_CLOEXEC));
        response.body = "first\n";
      } else if (path == "/folder") {
        response.file = Fd(open(testing::TempDir().c_str(), O_RDONLY | O_CLOEXEC));
      } else if (path == "/huge") {
        response.body = std::string(kHuge, 'x');
      } else {
        response.body = path == "/large" ? large_ : "this is " + path;
      }
      return response;
    });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::string Ask(const std::string& path, const std::string& headers = "") {
    return Get(server_->address(), path, headers);
  }

  const std::string file_ = testing::TempDir() + "http_server_test.file";
  const std::string large_ = std::string(8u << 20, 'x');
  HttpServerOptions options_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersAndClosesTheConnection) {
  Start();
  EXPECT_THAT(server_->address(), MatchesRegex("127\\.0\\.0\\.1:[1-9][0-9]+"));
  EXPECT_EQ(Ask("/a?b"),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: "
            "10\r\nCache-Control: no-store\r\n"
            "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\nthis is /a");
}

TEST_F(HttpServerTest, HeadHasNoBody) {
  Start();
  FakeHttpClient client(server_->address());
  client.Send("HEAD /a HTTP/1.0\r\n\r\n");
  const std::string answer = client.Receive();
  EXPECT_THAT(answer, HasSubstr("Content-Length: 10\r\n"));
  EXPECT_EQ(BodyOf(answer), "");
}

TEST_F(HttpServerTest, SendsLargeResponsesWhole) {
  Start();
  EXPECT_EQ(BodyOf(Ask("/large")), large_);
}

TEST_F(HttpServerTest, SendsTheFileAfterTheBody) {
  std::ofstream(file_) << large_ << "end";
  Start();
  const std::string answer = Ask("/file");
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Length: " + std::to_string(large_.size() + 9) + "\r\n"));
  EXPECT_EQ(BodyOf(answer), "first\n" + large_ + "end");
  FakeHttpClient head(server_->address());
  head.Send("HEAD /file HTTP/1.0\r\n\r\n");
  EXPECT_EQ(BodyOf(head.Receive()), "");
  std::filesystem::remove(file_);
  EXPECT_EQ(BodyOf(Ask("/file")), "first\n") << "a file that is not open is none";
  EXPECT_THAT(Ask("/folder"), StartsWith("HTTP/1.1 404 "));
}

TEST_F(HttpServerTest, TheCheckDecidesOnEachRequest) {
  options_.check = [](const HttpRequest& request) -> absl::Status {
    if (request.cookie != "a=b" || request.host.empty()) return absl::UnauthenticatedError("no cookie");
    return request.path == "/open" ? absl::OkStatus() : absl::PermissionDeniedError("not this one");
  };
  Start();
  EXPECT_THAT(Ask("/open", "Cookie: a=b\r\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Ask("/open"), StartsWith("HTTP/1.1 401 "));
  EXPECT_EQ(BodyOf(Ask("/open")), "no cookie\n");
  EXPECT_THAT(Ask("/other", "Cookie: a=b\r\n"), StartsWith("HTTP/1.1 403 "));
}

TEST_F(HttpServerTest, ATokenIsRequiredOnEveryRequest) {
  options_.check = HttpServer::RequireToken(*rpc::Token::FromText(kToken));
  Start();
  EXPECT_THAT(Ask("/a"), StartsWith("HTTP/1.1 401 Unauthorized\r\n"));
  EXPECT_THAT(Ask("/a"), HasSubstr("\r\nWWW-Authenticate: Bearer\r\n"));
  for (const std::string& wrong :
       {std::string("Bearer "), std::string("Bearer ") + kToken + "x", std::string("Bearer 0123456789abcdef"),
        std::string("Basic ") + kToken, std::string(kToken)}) {
    EXPECT_THAT(Ask("/none", "Authorization: " + wrong + "\r\n"), StartsWith("HTTP/1.1 401 ")) << wrong;
  }
  EXPECT_THAT(Ask("/a", std::string("authorization: bearer ") + kToken + "\r\n"),
              StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(Ask("/counts", std::string("Authorization: Bearer ") + kToken + "\r\n"),
              HasSubstr("7 without token"));
}

TEST_F(HttpServerTest, ReportsRefusals) {
  Start();
  FakeHttpClient post(server_->address());
  post.Send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_THAT(post.Receive(), HasSubstr("405 Method Not Allowed\r\n"));
  FakeHttpClient nonsense(server_->address());
  nonsense.Send("\x16\x03\x01 hello\r\n\r\n");
  EXPECT_THAT(nonsense.Receive(), StartsWith("HTTP/1.1 400 Bad Request\r\n"));
}

TEST_F(HttpServerTest, AHugeRequestReceivesARefusal) {
  Start();
  FakeHttpClient client(server_->address());
  // The server has not read most of the request when it makes the response.
  client.Send("GET / HTTP/1.1\r\nHost: x\r\nX: " + std::string(48u << 10, 'x') + "\r\n\r\n");
  EXPECT_THAT(client.Receive(), StartsWith("HTTP/1.1 431 "));
  EXPECT_EQ(BodyOf(Ask("/a")), "this is /a");
}

TEST_F(HttpServerTest, DropsAClientThatNeverStopsSending) {
  Start();
  FakeHttpClient client(server_->address());
  client.Send("GET / HTTP/1.1\r\nHost: x\r\nX: ");
  const std::string more(1u << 20, 'x');
  int sent_mib = 0;
  while (sent_mib < 100 && client.Send(more)) ++sent_mib;
  EXPECT_LT(sent_mib, 20) << "what the sockets' buffers hold, and no more";
}

TEST_F(HttpServerTest, SlowAndSilentClientsDoNotBlockOthers) {
  options_.most_connections = 4;
  Start();
  std::vector<FakeHttpClient> slow;
  for (int i = 0; i < 12; ++i) {
    slow.emplace_back(server_->address());
    slow.back().Send("GET /a HT");
    EXPECT_EQ(BodyOf(Ask("/a")), "this is /a") << i;
  }
  // 12 idle callers stay connected. The limit is 4 connections, so each request of the test leaves places for
  // 3 of them.
  EXPECT_THAT(Ask("/counts"), HasSubstr("9 displaced"));
}

TEST_F(HttpServerTest, DropsAClientThatTakesTooLong) {
  options_.request_time = Nanos::Millis(200);
  options_.answer_time = Nanos::Millis(200);
  Start();
  FakeHttpClient trickle(server_->address());
  FakeHttpClient non_reader(
      server_->address());  // reads no byte of a response that exceeds the socket buffers
  non_reader.Send("GET /huge HTTP/1.0\r\n\r\n");
  const auto start = std::chrono::steady_clock::now();
  while (trickle.Send("x") && std::chrono::steady_clock::now() - start < std::chrono::seconds(5)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2))
      << "byte by byte is no way to stay";
  EXPECT_LT(non_reader.Receive().size(), kHuge);
  EXPECT_THAT(Ask("/counts"), HasSubstr("2 timed out"));
}

TEST_F(HttpServerTest, RefusesInvalidAddressesWithTheRemedy) {
  for (const char* address : {"0.0.0.0:0", "[::]:0", "192.0.2.1:0"}) {
    options_.address = address;
    const auto server = HttpServer::Start(options_, nullptr);
    ASSERT_FALSE(server.ok()) << address;
    EXPECT_EQ(server.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(server.status().message()), HasSubstr("--token-file"));
  }
  for (const char* address : {"unix:/tmp/x", "9464", "head:9464", "127.0.0.1:70000"}) {
    options_.address = address;
    EXPECT_EQ(HttpServer::Start(options_, nullptr).status().code(), absl::StatusCode::kInvalidArgument)
        << address;
  }
  options_.address = "localhost:0";
  Start();
  options_.address = server_->address();
  const auto second = HttpServer::Start(options_, nullptr);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("give another --metrics"));
}

// An address that other machines can reach, with an aggregator's certificate.
class HttpsServerTest : public HttpServerTest {
 protected:
  HttpsServerTest() {
    options_.address = "0.0.0.0:0";
    options_.check = [](const HttpRequest&) { return absl::OkStatus(); };
    options_.protect = [this] {
      return tls::TlsServer::Make([this] { return pair_; }, tls::TlsServer::ClientCertificates::kRequested,
                                  std::make_shared<SystemClock>(), &LogNothing);
    };
  }
  std::string AskOverTls(const std::string& path, const tls::KeyPair& own = {}) {
    tls::FakeTlsClient client(server_->address(), authority_.certificate(), own);
    EXPECT_EQ(client.error(), "");
    client.Send("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n");
    return client.Receive();
  }
  tls::KeyPair PairOf(const tls::Identity& identity) {
    const tls::KeyAndRequest made = *tls::MakeRequest();
    return {authority_.Sign(made.request, identity, {}, ReadRealtime(), tls::kDay)->pem, made.key};
  }

  const tls::Authority authority_ = *tls::Authority::Make(ReadRealtime());
  tls::KeyPair pair_ = PairOf({tls::Holder::kAggregator, ""});
};

TEST_F(HttpsServerTest, AnAddressForOthersNeedsACheckAndTls) {
  HttpServerOptions options;
  options.address = "0.0.0.0:0";
  EXPECT_THAT(std::string(HttpServer::Start(options, nullptr).status().message()),
              HasSubstr("needs a token; give --token-file"));
  options.check = HttpServer::RequireToken(*rpc::Token::FromText(kToken));
  EXPECT_THAT(std::string(HttpServer::Start(options, nullptr).status().message()),
              HasSubstr("needs protection"));
  options.protect = [] { return std::shared_ptr<tls::TlsServer>(); };
  EXPECT_TRUE(HttpServer::Start(options, nullptr).ok()) << "plaintext was asked for";
}

TEST_F(HttpsServerTest, SendsTextsAndFilesInTls) {
  std::ofstream(file_) << large_ << "end";
  Start();
  EXPECT_EQ(BodyOf(AskOverTls("/a")), "this is /a");
  EXPECT_EQ(BodyOf(AskOverTls("/large")), large_);
  EXPECT_EQ(BodyOf(AskOverTls("/file")), "first\n" + large_ + "end");
  std::filesystem::remove(file_);
}

TEST_F(HttpsServerTest, AnswersNothingInPlaintext) {
  Start();
  EXPECT_EQ(Ask("/a").find("HTTP/"), std::string::npos);
  EXPECT_EQ(BodyOf(AskOverTls("/a")), "this is /a") << "and serves the next";
}

TEST_F(HttpsServerTest, ARequestHasTheClientsCertificate) {
  Start();
  const std::string chain = BodyOf(AskOverTls("/certificate", PairOf({tls::Holder::kUser, "ann"})));
  EXPECT_EQ(tls::ReadCertificate(chain)->identity.name, "ann");
  EXPECT_EQ(BodyOf(AskOverTls("/certificate")), "");
}

TEST_F(HttpsServerTest, ASilentClientHasAsLongAsAnyOther) {
  options_.request_time = Nanos::Millis(100);
  Start();
  FakeHttpClient silent(server_->address());
  EXPECT_EQ(silent.Receive(), "");
  EXPECT_THAT(AskOverTls("/counts"), HasSubstr("1 timed out"));
}

}  // namespace
}  // namespace lockstep
