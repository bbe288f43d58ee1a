#include "base/rpc/connection_gate.h"

#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "base/files/open_file_limit.h"
#include "base/rpc/channel.h"
#include "base/rpc/server.h"
#include "base/rpc/status.h"
#include "gtest/gtest.h"
#include "lockstep/v1/ingest.grpc.pb.h"

namespace lockstep::rpc {
namespace {

// Trusts callers with the token.
class TrustingPonger final : public v1::Ingest::Service {
 public:
  TrustingPonger(Token token, Peers& peers) : token_(std::move(token)), peers_(peers) {}
  grpc::Status Ping(grpc::ServerContext* context, const v1::PingRequest*, v1::PingReply*) override {
    const absl::Status allowed = token_.Check(*context);
    if (!allowed.ok()) peers_.NoteRefused(context->peer());
    return ToGrpc(allowed.ok() ? peers_.Trust(context->peer(), std::nullopt) : allowed);
  }

 private:
  const Token token_;
  Peers& peers_;
};

class ConnectionGateTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { RaiseOpenFileLimit(); }
  ConnectionGateTest() : token_(*Token::Random()), service_(token_, gate_) {
    grpc::ServerBuilder builder;
    Configure(builder, {});
    gate_.Attach(builder, security_.get());
    port_ = *gate_.Listen(*Address::Parse("127.0.0.1:0"));
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    EXPECT_TRUE(gate_.Start().ok());
  }
  ~ConnectionGateTest() override {
    gate_.Stop();
    server_->Shutdown();
  }
  std::shared_ptr<grpc::Channel> Channel() const {
    return *rpc::Connect("127.0.0.1:" + std::to_string(port_), security_.get());
  }
  static grpc::StatusCode Ping(const std::shared_ptr<grpc::Channel>& channel, const Token& token) {
    grpc::ClientContext context;
    Prepare(context, token, Nanos::Seconds(10));
    v1::PingReply reply;
    return v1::Ingest::NewStub(channel)->Ping(&context, {}, &reply).error_code();
  }
  Fd Silent() const {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port_));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    return fd;
  }

  const Token token_;
  const std::shared_ptr<Security> security_ =
      *Security::ForServer({.token = token_}, std::make_shared<SystemClock>(), &LogNothing);
  ConnectionGate gate_;
  TrustingPonger service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

TEST_F(ConnectionGateTest, TrustsAPeerThatHasTheToken) {
  const auto channel = Channel();
  EXPECT_EQ(Ping(channel, token_), grpc::StatusCode::OK);
  EXPECT_EQ(gate_.counts().trusted, 1u);
  EXPECT_EQ(gate_.counts().strangers, 0u);
}

TEST_F(ConnectionGateTest, APeerWithoutTheTokenStaysAStranger) {
  const auto channel = Channel();
  EXPECT_EQ(Ping(channel, *Token::Random()), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(gate_.counts().trusted, 0u);
  EXPECT_EQ(gate_.counts().strangers, 1u);
}

TEST_F(ConnectionGateTest, AThousandSilentPeersKeepNobodyOut) {
  const auto before = Channel();
  ASSERT_EQ(Ping(before, token_), grpc::StatusCode::OK);
  std::vector<Fd> silent;
  for (int i = 0; i < 1000; ++i) silent.push_back(Silent());
  EXPECT_EQ(Ping(Channel(), token_), grpc::StatusCode::OK);
  EXPECT_EQ(Ping(before, token_), grpc::StatusCode::OK);
  EXPECT_LE(gate_.counts().strangers, PeerLimits().strangers_per_source);
  const GateCounts counts = gate_.counts();
  EXPECT_GE(counts.displaced + counts.refused, 1000 - PeerLimits().strangers_per_source);
}

TEST(PeerTexts, AreReadable) {
  EXPECT_EQ(PeerText("ipv4:10.0.0.7:41234"), "10.0.0.7:41234");
  EXPECT_EQ(PeerText("ipv6:%5B::1%5D:41234"), "[::1]:41234");
  EXPECT_EQ(PeerText("unix:"), "");
}

}  // namespace
}  // namespace lockstep::rpc
