#include "base/tls/tls_server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/tls/tls_client_fake.h"
#include "base/tls/tls_fixture.h"
#include "gtest/gtest.h"

namespace lockstep::tls {
namespace {

class TlsServerTest : public ::testing::Test {
 protected:
  TlsServerTest() {
    sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_.get(), 4), 0);
    EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  KeyPair PairOf(const Identity& identity) {
    const KeyAndRequest made = *MakeRequest();
    return {authority_.Sign(made.request, identity, {}, ReadRealtime(), kDay)->pem, made.key};
  }
  absl::Status Make() {
    auto made = TlsServer::Make([this] { return pair_; }, TlsServer::ClientCertificates::kRequested, clock_,
                                [this](LogLevel, const char* event, std::initializer_list<LogField>) {
                                  events_.emplace_back(event);
                                });
    if (made.ok()) server_ = *made;
    return made.status();
  }
  // Accepts a client and echoes one message of it. Returns the client's error and answer, and sets chain_.
  std::pair<std::string, std::string> Echo(const KeyPair& own = {}) {
    std::pair<std::string, std::string> result;
    std::thread client([&] {
      FakeTlsClient fake(address_, authority_.certificate(), own);
      result.first = fake.error();
      if (!result.first.empty()) return;
      fake.Send("hello");
      result.second = fake.Receive();
    });
    const Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    {
      const auto connection = *server_->Accept(socket.get());
      char part[64];
      const ssize_t n = Retry(socket, *connection, [&] { return connection->Read(part, sizeof(part)); });
      chain_ = connection->PeerChain();
      if (n > 0) {
        Retry(socket, *connection, [&] { return connection->Write(part, static_cast<size_t>(n)); });
        connection->End();
      }
    }
    shutdown(socket.get(), SHUT_RDWR);
    client.join();
    return result;
  }

  const Authority authority_ = *Authority::Make(ReadRealtime());
  KeyPair pair_ = PairOf({Holder::kAggregator, ""});
  const std::shared_ptr<StepClock> clock_ = std::make_shared<StepClock>();
  std::vector<std::string> events_;
  std::shared_ptr<TlsServer> server_;
  std::string chain_;

 private:
  template <typename Call>
  static ssize_t Retry(const Fd& socket, const TlsConnection& connection, const Call& call) {
    ssize_t n = 0;
    while ((n = call()) < 0 && errno == EAGAIN) {
      pollfd ready = {socket.get(), static_cast<short>(connection.wants_to_write() ? POLLOUT : POLLIN), 0};
      poll(&ready, 1, 5000);
    }
    return n;
  }

  const Fd listener_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::string address_;
};

TEST_F(TlsServerTest, ExchangesBytesAndTheClientsCertificate) {
  ASSERT_TRUE(Make().ok());
  EXPECT_EQ(Echo(), std::pair(std::string(), std::string("hello")));
  EXPECT_EQ(chain_, "");
  Echo(PairOf({Holder::kUser, "ann"}));
  EXPECT_EQ(ReadCertificate(chain_)->identity.name, "ann");
}

TEST_F(TlsServerTest, AClientThatTrustsAnotherAuthorityLeaves) {
  const Authority other = *Authority::Make(ReadRealtime());
  const KeyAndRequest made = *MakeRequest();
  pair_ = {other.Sign(made.request, {Holder::kAggregator, ""}, {}, ReadRealtime(), kDay)->pem, made.key};
  ASSERT_TRUE(Make().ok());
  EXPECT_NE(Echo().first, "");
}

TEST_F(TlsServerTest, NeedsACertificateWithItsKey) {
  pair_.key = PairOf({Holder::kAggregator, ""}).key;
  EXPECT_EQ(Make().code(), absl::StatusCode::kInvalidArgument);
  pair_ = {"", ""};
  EXPECT_EQ(Make().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(TlsServerTest, UsesANewCertificateOnlyIfItCanBeUsed) {
  ASSERT_TRUE(Make().ok());
  pair_.key = "";
  clock_->now = clock_->now + Nanos::Seconds(2);
  EXPECT_EQ(Echo().second, "hello");
  EXPECT_EQ(events_, std::vector<std::string>{"tls_folder_refused"});
  pair_ = PairOf({Holder::kAggregator, ""});
  clock_->now = clock_->now + Nanos::Seconds(2);
  EXPECT_EQ(Echo().second, "hello");
  EXPECT_EQ(events_.size(), 1u);
}

}  // namespace
}  // namespace lockstep::tls
