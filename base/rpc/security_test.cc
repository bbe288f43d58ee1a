#include "base/rpc/security.h"

#include <grpcpp/grpcpp.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/rpc/channel.h"
#include "base/rpc/connection_gate.h"
#include "base/rpc/server.h"
#include "base/rpc/status.h"
#include "base/rpc/status_macros.h"
#include "base/tls/authority.h"
#include "base/tls/tls_folder.h"
#include "gtest/gtest.h"
#include "lockstep/v1/ingest.grpc.pb.h"

namespace lockstep::rpc {
namespace {

constexpr Nanos kDay = Nanos::Seconds(86'400);

// Answers pings, and keeps what the server knows of the last caller.
class Witness final : public v1::Ingest::Service {
 public:
  explicit Witness(const Security& security) : security_(security) {}
  grpc::Status Ping(grpc::ServerContext* context, const v1::PingRequest* /*request*/,
                    v1::PingReply* /*reply*/) override {
    peer = security_.CheckClient(*context);
    return ToGrpc(peer.status());
  }
  absl::StatusOr<std::optional<PeerCertificate>> peer = std::nullopt;

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
    std::filesystem::create_directory(path);
    std::ofstream(path + "/ca.crt") << authority.certificate();
    if (!identity) return path;
    const tls::KeyAndRequest made = *tls::MakeRequest();
    const tls::SignedCertificate certificate = *authority.Sign(made.request, *identity, {}, from, kDay);
    serial_ = certificate.serial;
    std::ofstream(path + "/tls.crt") << certificate.pem;
    std::ofstream(path + "/tls.key") << made.key;
    chmod((path + "/tls.key").c_str(), 0600);
    return path;
  }

  void Serve(const SecuritySettings& settings) {
    auto made = Security::ForServer(settings, clock_);
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
                              Security::ForClient(settings, holder, clock_));
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
  EXPECT_EQ((*witness_->peer)->identity, (tls::Identity{tls::Holder::kNode, "n1"}));
  EXPECT_EQ((*witness_->peer)->serial, serial_);
}

TEST_F(SecurityTest, AClientMayHaveNoCertificate) {
  Serve({.tls_dir = Folder("server", site_, kAggregator)});
  ASSERT_TRUE(Ping({.tls_dir = Folder("user", site_, std::nullopt)}).ok());
  EXPECT_EQ(*witness_->peer, std::nullopt);
}

TEST_F(SecurityTest, RefusesCertificatesOfClientsWithASentence) {
  Serve({.tls_dir = Folder("server", site_, kAggregator)});
  const tls::Identity node{tls::Holder::kNode, "n1"};
  const std::string expired = Folder("expired", site_, node, ReadRealtime() - kDay * 2);
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
  const auto client = *Security::ForClient({.tls_dir = node}, tls::Holder::kNode, clock_);
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
  const std::string server = Folder("server", site_, kAggregator, ReadRealtime() - kDay * 2);  // expired
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
  for (const auto& made :
       {Security::ForServer({}, clock_), Security::ForClient({}, tls::Holder::kUser, clock_)}) {
    EXPECT_EQ(made.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(std::string(made.status().message()).find("--tls-dir"), std::string::npos);
  }
}

TEST_F(SecurityTest, AServersFolderNeedsItsCertificate) {
  EXPECT_EQ(Security::ForServer({.tls_dir = Folder("empty", site_, std::nullopt)}, clock_).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(
      Security::ForServer({.tls_dir = Folder("node", site_, tls::Identity{tls::Holder::kNode, "n1"})}, clock_)
          .status()
          .code(),
      absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace lockstep::rpc
