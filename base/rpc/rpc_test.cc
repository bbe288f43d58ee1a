#include <grpcpp/grpcpp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "base/rpc/address.h"
#include "base/rpc/backoff.h"
#include "base/rpc/channel.h"
#include "base/rpc/connection_gate.h"
#include "base/rpc/server.h"
#include "base/rpc/status.h"
#include "base/rpc/status_macros.h"
#include "gtest/gtest.h"
#include "lockstep/v1/ingest.grpc.pb.h"

namespace lockstep::rpc {
namespace {

class Ponger final : public v1::Ingest::Service {
 public:
  explicit Ponger(Token token) : token_(std::move(token)) {}
  grpc::Status Ping(grpc::ServerContext* context, const v1::PingRequest* request,
                    v1::PingReply* reply) override {
    const absl::Status allowed = token_.Check(*context);
    if (!allowed.ok()) return ToGrpc(allowed);
    reply->set_t1_ns(request->t1_ns());
    return grpc::Status::OK;
  }

 private:
  const Token token_;
};

absl::Status PingOver(const std::shared_ptr<grpc::Channel>& channel, const Token& token,
                      Nanos deadline = Nanos::Seconds(10)) {
  auto stub = v1::Ingest::NewStub(channel);
  grpc::ClientContext context;
  Prepare(context, token, deadline);
  v1::PingRequest request;
  request.set_t1_ns(42);
  v1::PingReply reply;
  LOCKSTEP_RETURN_IF_ERROR(FromGrpc(stub->Ping(&context, request, &reply)));
  return reply.t1_ns() == 42 ? absl::OkStatus() : absl::InternalError("wrong answer");
}

class TempFolder {
 public:
  TempFolder() {
    char name[] = "/tmp/lockstep-rpc-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~TempFolder() {
    unlink((path_ + "/s").c_str());
    rmdir(path_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Addresses, AreHostAndPortOrAUnixPath) {
  EXPECT_EQ(Address::Parse("node1:4318")->target(), "node1:4318");
  EXPECT_EQ(Address::Parse("[::1]:0")->target(), "[::1]:0");
  EXPECT_EQ(Address::Parse("[::1]:5")->host(), "::1");
  EXPECT_EQ(Address::Parse("unix:/run/x.sock")->path(), "/run/x.sock");
  EXPECT_EQ(Address::Parse("unix:///run/x.sock")->path(), "/run/x.sock");
  EXPECT_TRUE(Address::Parse("unix:x")->is_unix());
}

TEST(Addresses, InvalidOnesAreRefusedWithTheirTextInTheMessage) {
  for (const char* bad : {"", "host", ":1", "host:", "host:x", "host:70000", "host:-1", "::1:5", "unix:"}) {
    const auto address = Address::Parse(bad);
    ASSERT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_NE(std::string(address.status().message()).find(bad), std::string::npos);
  }
  EXPECT_FALSE(Address::Parse("unix:/" + std::string(200, 'x')).ok());
}

TEST(Waits, DoubleFromFiftyMillisecondsToTwoSecondsWithJitter) {
  Backoff backoff(7);
  double expected = 50;
  for (int i = 0; i < 10; ++i) {
    const double wait = backoff.Next().millis();
    EXPECT_GE(wait, expected * 0.74) << i;
    EXPECT_LE(wait, expected * 1.26) << i;
    expected = std::min(expected * 2, 2000.0);
  }
  backoff.Reset();
  EXPECT_LE(backoff.Next().millis(), 63);
}

TEST(Statuses, KeepCodeAndTextBothWays) {
  const absl::Status status = absl::NotFoundError("no such job");
  EXPECT_EQ(ToGrpc(status).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
}

// Serves `service` behind a gate.
class GatedServer {
 public:
  ~GatedServer() {
    gate_.Stop();
    if (server_ != nullptr) server_->Shutdown();
  }
  absl::Status Start(const Address& address, const Token& token, grpc::Service& service) {
    grpc::ServerBuilder builder;
    Configure(builder, {});
    const auto security = Security::ForServer({.token = token}, std::make_shared<SystemClock>(), &LogNothing);
    gate_.Attach(builder, security.ok() ? security->get() : nullptr);
    LOCKSTEP_ASSIGN_OR_RETURN(port_, gate_.Listen(address));
    builder.RegisterService(&service);
    server_ = builder.BuildAndStart();
    return gate_.Start();
  }
  int port() const { return port_; }

 private:
  ConnectionGate gate_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

TEST(Servers, RefuseATcpPortWithoutAToken) {
  Ponger service{Token()};
  GatedServer server;
  EXPECT_EQ(server.Start(*Address::Parse("127.0.0.1:0"), Token(), service).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(Servers, AnswerOnlyCallsWithTheirToken) {
  const Token token = *Token::Random();
  Ponger service(token);
  GatedServer server;
  ASSERT_TRUE(server.Start(*Address::Parse("127.0.0.1:0"), token, service).ok());
  ASSERT_GT(server.port(), 0);
  const auto security = *Security::ForClient({.token = token}, tls::Holder::kUser,
                                             std::make_shared<SystemClock>(), &LogNothing);
  auto channel = Connect("127.0.0.1:" + std::to_string(server.port()), security.get());
  ASSERT_TRUE(channel.ok());
  EXPECT_TRUE(PingOver(*channel, token).ok());
  EXPECT_EQ(PingOver(*channel, Token()).code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(PingOver(*channel, *Token::Random()).code(), absl::StatusCode::kUnauthenticated);
}

TEST(Servers, NameAPortThatIsInUse) {
  const Token token = *Token::Random();
  Ponger service(token);
  GatedServer first;
  ASSERT_TRUE(first.Start(*Address::Parse("127.0.0.1:0"), token, service).ok());
  const std::string address = "127.0.0.1:" + std::to_string(first.port());
  GatedServer second;
  const absl::Status status = second.Start(*Address::Parse(address), token, service);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(status.message().find(address), std::string_view::npos) << status;
}

TEST(Servers, OnAUnixSocketNeedAPrivateFolder) {
  TempFolder folder;
  const Address address = *Address::Parse("unix:" + folder.path() + "/s");
  Ponger service{Token()};
  {
    GatedServer server;
    ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
    EXPECT_EQ(server.Start(address, Token(), service).code(), absl::StatusCode::kPermissionDenied);
  }
  ASSERT_EQ(chmod(folder.path().c_str(), 0700), 0);
  {
    GatedServer server;
    ASSERT_TRUE(server.Start(address, Token(), service).ok());
    EXPECT_TRUE(PingOver(*Connect(address.target()), Token()).ok());
    auto socket = ConnectUnix(address.path());
    ASSERT_TRUE(socket.ok());
    EXPECT_TRUE(PingOver(*ConnectOver(*std::move(socket)), Token()).ok());

    GatedServer second;
    EXPECT_EQ(second.Start(address, Token(), service).code(), absl::StatusCode::kAlreadyExists);
  }
  EXPECT_NE(access(address.path().c_str(), F_OK), 0) << "the socket's file remains";
}

TEST(Calls, WaitForTheServerUntilTheirDeadline) {
  TempFolder folder;
  const std::string address = "unix:" + folder.path() + "/s";
  auto channel = Connect(address);
  EXPECT_EQ(PingOver(*channel, Token(), Nanos::Millis(100)).code(), absl::StatusCode::kDeadlineExceeded);

  Ponger service{Token()};
  GatedServer server;
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ASSERT_TRUE(server.Start(*Address::Parse(address), Token(), service).ok());
  });
  EXPECT_TRUE(PingOver(*channel, Token()).ok());
  late.join();
}

}  // namespace
}  // namespace lockstep::rpc
