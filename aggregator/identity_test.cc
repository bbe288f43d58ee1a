// Tests a server whose clients prove themselves by certificates, over real TLS.
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "aggregator/ingest/fake_daemon.h"
#include "aggregator/reports/local_analyst.h"
#include "aggregator/server.h"
#include "base/files/read_files.h"
#include "base/rpc/channel.h"
#include "base/rpc/status.h"
#include "base/tls/tls_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/v1/control.grpc.pb.h"

namespace lockstep::aggregator {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class IdentityTest : public ::testing::Test {
 protected:
  IdentityTest() {
    char pattern[] = "/tmp/lockstep-identity-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    Folder("server", tls::Identity{tls::Holder::kAggregator, ""});
    ServerOptions options;
    options.listen = {"127.0.0.1:0"};
    options.security.tls_dir = folder_ + "/server";
    options.state_dir = folder_ + "/state";
    options.audit_file = folder_ + "/audit";
    options.analyst = std::make_shared<LocalAnalyst>();
    auto server = Server::Start(std::move(options));
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ~IdentityTest() override {
    server_ = nullptr;
    fs::remove_all(folder_);
  }

  std::string Folder(const std::string& name, const std::optional<tls::Identity>& identity) {
    std::string path = folder_ + "/" + name;
    serials_[name] = tls::WriteTlsFolder(path, authority_, identity, ReadRealtime());
    return path;
  }
  std::shared_ptr<grpc::Channel> Channel(const std::string& name,
                                         const std::optional<tls::Identity>& identity) {
    const std::string path = Folder(name, identity);
    const auto security =
        rpc::Security::ForClient({.tls_dir = path}, identity ? identity->holder : tls::Holder::kUser,
                                 std::make_shared<SystemClock>(), &LogNothing);
    EXPECT_TRUE(security.ok()) << security.status();
    return *rpc::Connect(server_->addresses()[0], security->get());
  }
  absl::Status StatusOver(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    rpc::Prepare(context, rpc::Token(), Nanos::Seconds(10));
    return rpc::FromGrpc(v1::Control::NewStub(channel)->Status(&context, {}, &reply_));
  }
  // Waits for the line, because a stream ends before it is written.
  bool Audited(const std::string& text) {
    for (int i = 0; i < 500; ++i) {
      if (FileText(folder_ + "/audit").value_or("").find(text) != std::string::npos) return true;
      usleep(10'000);
    }
    return false;
  }

  const tls::Authority authority_ = *tls::Authority::Make(ReadRealtime());
  std::map<std::string, std::string> serials_;
  std::string folder_;
  std::unique_ptr<Server> server_;
  v1::StatusReply reply_;
};

TEST_F(IdentityTest, ADaemonSpeaksForTheNodeOfItsCertificate) {
  const auto channel = Channel("n1", tls::Identity{tls::Holder::kNode, "n1"});
  FakeDaemon daemon(channel, "n1", 1);
  EXPECT_GT(daemon.Connect().credits(), 0u);
  FakeDaemon other(channel, "n2", 2);
  EXPECT_EQ(other.Connect().credits(), 0u);
  EXPECT_TRUE(other.WaitForEnd());
  EXPECT_TRUE(Audited("the certificate is of node n1, and the daemon says that it is node n2"));
  ASSERT_TRUE(StatusOver(Channel("root", tls::Identity{tls::Holder::kUser, "root"})).ok());
  ASSERT_EQ(reply_.daemons_size(), 1);
  EXPECT_EQ(reply_.daemons(0).node_id(), "n1");
  EXPECT_EQ(reply_.aggregator().protection(), "certificates");
}

TEST_F(IdentityTest, HoldersHaveTheirOwnRightsOnly) {
  const auto node = Channel("n1", tls::Identity{tls::Holder::kNode, "n1"});
  const absl::Status as_caller = StatusOver(node);
  EXPECT_EQ(as_caller.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(as_caller.message()),
              HasSubstr("the certificate is of node n1, which may not make this call"));

  FakeDaemon daemon(Channel("root", tls::Identity{tls::Holder::kUser, "root"}), "n1", 1);
  EXPECT_EQ(daemon.Connect().credits(), 0u);
  EXPECT_TRUE(daemon.WaitForEnd());
  EXPECT_TRUE(Audited("the certificate is of user root, which has no daemon"));

  const absl::Status nobody = StatusOver(Channel("none", std::nullopt));
  EXPECT_EQ(nobody.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(nobody.message()), HasSubstr("a user's certificate in --tls-dir"));
  const absl::Status unknown =
      StatusOver(Channel("x", tls::Identity{tls::Holder::kUser, "no-such-user-here"}));
  EXPECT_EQ(unknown.code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(IdentityTest, AUsersCertificateGivesTheUsersRights) {
  FakeDaemon daemon(Channel("n1", tls::Identity{tls::Holder::kNode, "n1"}), "n1", 1);
  ASSERT_GT(daemon.Connect().credits(), 0u);
  daemon.SendRanks(0, 1, 1);
  ASSERT_TRUE(server_->WaitForDaemon(Nanos::Seconds(5)));
  ASSERT_TRUE(StatusOver(Channel("root", tls::Identity{tls::Holder::kUser, "root"})).ok());
  EXPECT_EQ(reply_.daemons(0).ranks_size(), 1);
  ASSERT_TRUE(StatusOver(Channel("nobody", tls::Identity{tls::Holder::kUser, "nobody"})).ok());
  EXPECT_EQ(reply_.daemons_size() == 0 ? 0 : reply_.daemons(0).ranks_size(), 0);
}

TEST_F(IdentityTest, ARevokedNodeLosesItsStream) {
  FakeDaemon daemon(Channel("n1", tls::Identity{tls::Holder::kNode, "n1"}), "n1", 1);
  ASSERT_GT(daemon.Connect().credits(), 0u);
  std::ofstream(folder_ + "/server/ca.crl")
      << *authority_.Revoke({{serials_["n1"], ReadRealtime()}}, ReadRealtime());
  for (int i = 0; i < 40 && !daemon.ended(); ++i) {
    daemon.SendRanks(0, 1, 1);
    usleep(100'000);
  }
  EXPECT_TRUE(daemon.ended());
  EXPECT_TRUE(Audited("the certificate of node n1 has been revoked"));
}

}  // namespace
}  // namespace lockstep::aggregator
