#include "base/rpc/security.h"

#include <grpcpp/grpcpp.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/rpc/channel.h"
#include "base/rpc/connection_gate.h"
#include "base/rpc/server.h"
#include "base/rpc/status.h"
#include "base/rpc/status_macros.h"
#include "base/tls/tls_fixture.h"
#include "gtest/gtest.h"
#include "lockstep/v1/ingest.grpc.pb.h"

namespace lockstep::rpc {
namespace {

// Answers pings, and keeps what the server knows of the last caller.
class Witness final : public v1::Ingest::Service {
 public:
  explicit Witness(const Security& security) : security_(security) {}
  grpc::Status Ping(grpc::ServerContext* context, const v1::PingRequest* /*request*/,
                    v1::PingReply* /*reply*/) override {
    peer = security_.CheckClient(*context);
    return ToGrpc(peer.status());
  }
  absl::StatusOr<std::optional<tls::Identity>> peer = std::nullopt;

 private:
  const Security& security_;
};

class SecurityTest : public ::testing::Test {
 protected:
  SecurityTest() {
    char pattern[] = "/tmp/lockstep-security-XXXXXX";
    root_ = mkdtemp(pattern);
  }
  ~SecurityTest() override {
    gate_.Stop();
    if (server_ != nullptr) server_->Shutdown();
    std::filesystem::remove_all(root_);
  }

  // Returns a folder with the certificate of `identity`.
  std::string Folder(const std::string& name, const tls::Authority& authority,
                     const std::optional<tls::Identity>& identity, HostTime from = ReadRealtime()) {
    std::string path = root_ + "/" + name;
    serial_ = tls::WriteTlsFolder(path, authority, identity, from);
    return path;
  }

  void Serve(const SecuritySettings& settings) {
    auto made = Security::ForServer(settings, clock_, &LogNothing);
    ASSERT_TRUE(made.ok()) << made.status();
    security_ = *made;
    witness_ = std::make_unique<Witness>(*security_);
    grpc::ServerBuilder builder;
    Configure(builder, {});
    gate_.Attach(builder, security_.get());
    const auto port = gate_.Listen(*Address::Parse("127.0.0.1:0"));
    ASSERT_TRUE(port.ok()) << port.status();
    address_ = "127.0.0.1:" + std::to_string(*port);
    builder.RegisterService(witness_.get());
    server_ = builder.BuildAndStart();
    ASSERT_TRUE(gate_.Start().ok());
  }

  absl::Status Ping(const SecuritySettings& settings, tls::Holder holder = tls::Holder::kUser) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::shared_ptr<Security> client,
                              Security::ForClient(settings, holder, clock_, &LogNothing));
    LOCKSTEP_ASSIGN_OR_RETURN(const auto channel, Connect(address_, client.get()));
    auto stub = v1::Ingest::NewStub(channel);
    grpc::ClientContext context;
    Prepare(context, settings.token, Nanos::Millis(700));
    v1::PingReply reply;
    absl::Status pinged = FromGrpc(stub->Ping(&context, v1::PingRequest(), &reply));
    problem_ = client->server_problem();
    return pinged;
  }
  absl::StatusCode CodeOf(const SecuritySettings& settings, tls::Holder holder = tls::Holder::kUser) {
    return Ping(settings, holder).code();
  }

  const tls::Identity kAggregator{tls::Holder::kAggregator, ""};
  const std::shared_ptr<SystemClock> clock_ = std::make_shared<SystemClock>();
  const tls::Authority site_ = *tls::Authority::Make(ReadRealtime());
  const tls::Authority other_ = *tls::Authority::Make(ReadRealtime());
  std::string root_, address_, serial_, problem_;
  std::shared_ptr<Security> security_;
  std::unique_ptr<Witness> witness_;
  ConnectionGate gate_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(SecurityTest, CertificatesIdentifyBothEnds) {
  Serve({.tls_dir = Folder("server", site_, kAggregator)});
  const std::string node = Folder("node", site_, tls::Identity{tls::Holder::kNode, "n1"});
  ASSERT_TRUE(Ping({.tls_dir = node}, tls::Holder::kNode).ok());
  ASSERT_TRUE(witness_->peer.ok() && witness_->peer->has_value());
  EXPECT_EQ(**witness_->peer, (tls::Identity{tls::Holder::kNode, "n1"}));
}

TEST_F(SecurityTest, AClientMayHaveNoCertificate) {
  Serve({.tls_dir = Folder("server", site_, kAggregator)});
  ASSERT_TRUE(Ping({.tls_dir = Folder("user", site_, std::nullopt)}).ok());
  EXPECT_EQ(*witness_->peer, std::nullopt);
}

TEST_F(SecurityTest, RefusesCertificatesOfClientsWithASentence) {
  Serve({.tls_dir = Folder("server", site_, kAggregator)});
  const tls::Identity node{tls::Holder::kNode, "n1"};
  const std::string expired = Folder("expired", site_, node, ReadRealtime() - tls::kDay * 2);
  const absl::Status status = Ping({.tls_dir = expired}, tls::Holder::kNode);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_NE(std::string(status.message()).find("the certificate of node n1 expired"), std::string::npos)
      << status;

  const std::string foreign = Folder("foreign", other_, node);
  std::ofstream(foreign + "/ca.crt") << site_.certificate();
  EXPECT_NE(std::string(Ping({.tls_dir = foreign}, tls::Holder::kNode).message()).find("another authority"),
            std::string::npos);
}

TEST_F(SecurityTest, RefusesServersOfAnotherAuthorityAndOtherHolders) {
  Serve({.tls_dir = Folder("server", site_, kAggregator)});
  EXPECT_EQ(CodeOf({.tls_dir = Folder("user", other_, std::nullopt)}), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(problem_, "the certificate of the aggregator was made by another authority than that of ca.crt");
  EXPECT_EQ(CodeOf({.token = *Token::Random()}), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(problem_, "");
  EXPECT_EQ(CodeOf({.plaintext = SecuritySettings::Plaintext::kYes}), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(SecurityTest, ARevokedCertificateIsRefusedOnItsConnection) {
  const std::string server = Folder("server", site_, kAggregator);
  Serve({.tls_dir = server});
  const std::string node = Folder("node", site_, tls::Identity{tls::Holder::kNode, "n1"});
  const auto client = *Security::ForClient({.tls_dir = node}, tls::Holder::kNode, clock_, &LogNothing);
  auto stub = v1::Ingest::NewStub(*Connect(address_, client.get()));
  const auto ping = [&] {
    grpc::ClientContext context;
    Prepare(context, Token(), Nanos::Seconds(5));
    v1::PingReply reply;
    return FromGrpc(stub->Ping(&context, v1::PingRequest(), &reply));
  };
  ASSERT_TRUE(ping().ok());
  std::ofstream(server + "/ca.crl") << *site_.Revoke({{serial_, ReadRealtime()}}, ReadRealtime());
  absl::Status status;
  for (int i = 0; i < 50 && status.ok(); ++i) {
    usleep(100'000);
    status = ping();
  }
  EXPECT_EQ(status, absl::UnauthenticatedError("the certificate of node n1 has been revoked"));
}

TEST_F(SecurityTest, ServersUseARenewedCertificate) {
  const std::string server = Folder("server", site_, kAggregator, ReadRealtime() - tls::kDay * 2);  // expired
  Serve({.tls_dir = server});
  const std::string user = Folder("user", site_, std::nullopt);
  EXPECT_EQ(CodeOf({.tls_dir = user}), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(problem_.find("the certificate of the aggregator expired"), std::string::npos) << problem_;
  Folder("server", site_, kAggregator);
  absl::Status status = absl::UnknownError("");
  for (int i = 0; i < 20 && !status.ok(); ++i) status = Ping({.tls_dir = user});
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(SecurityTest, ATokenAloneIsEnough) {
  const Token token = *Token::Random();
  Serve({.token = token});
  EXPECT_TRUE(Ping({.token = token}).ok());
  EXPECT_EQ(*witness_->peer, std::nullopt);
  EXPECT_EQ(CodeOf({.token = *Token::Random()}), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(problem_.find("does not have this token"), std::string::npos) << problem_;
  EXPECT_EQ(CodeOf({.plaintext = SecuritySettings::Plaintext::kYes}), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(SecurityTest, NothingProtectsNoTcp) {
  for (const auto& made : {Security::ForServer({}, clock_, &LogNothing),
                           Security::ForClient({}, tls::Holder::kUser, clock_, &LogNothing)}) {
    EXPECT_EQ(made.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(std::string(made.status().message()).find("--tls-dir"), std::string::npos);
  }
}

TEST_F(SecurityTest, CertificatesDoNotIdentifyCallersWithoutTls) {
  EXPECT_TRUE(MayListen({.tls_dir = true}).ok());
  EXPECT_TRUE(MayListen({.token = true, .plaintext = true}).ok());
  EXPECT_TRUE(MayListen({.munge = true, .plaintext = true}).ok());
  EXPECT_FALSE(MayListen({.tls_dir = true, .plaintext = true}).ok());
  EXPECT_FALSE(MayListen({.munge = true}).ok());
}

TEST_F(SecurityTest, ANewChannelForgetsARefusal) {
  Serve({.tls_dir = Folder("server", site_, kAggregator)});
  const auto client = *Security::ForClient({.tls_dir = Folder("user", other_, std::nullopt)},
                                           tls::Holder::kUser, clock_, &LogNothing);
  const auto channel = *Connect(address_, client.get());
  for (int i = 0; i < 100 && client->server_problem().empty(); ++i)
    channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  EXPECT_NE(client->server_problem(), "");
  EXPECT_NE(client->channel_credentials(), nullptr);
  EXPECT_EQ(client->server_problem(), "");
}

TEST_F(SecurityTest, AServersFolderNeedsItsCertificate) {
  EXPECT_EQ(Security::ForServer({.tls_dir = Folder("empty", site_, std::nullopt)}, clock_, &LogNothing)
                .status()
                .code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(Security::ForServer({.tls_dir = Folder("node", site_, tls::Identity{tls::Holder::kNode, "n1"})},
                                clock_, &LogNothing)
                .status()
                .code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace lockstep::rpc
