#include <grpcpp/grpcpp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "base/rpc/address.h"
#include "base/rpc/backoff.h"
#include "base/rpc/channel.h"
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

TEST(Servers, RefuseATcpPortWithoutAToken) {
  grpc::ServerBuilder builder;
  Configure(builder);
  const absl::Status status = Listen(builder, *Address::Parse("127.0.0.1:0"), Token());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Servers, AnswerOnlyCallsWithTheirToken) {
  const Token token = *Token::Random();
  Ponger service(token);
  grpc::ServerBuilder builder;
  Configure(builder);
  int port = 0;
  ASSERT_TRUE(Listen(builder, *Address::Parse("127.0.0.1:0"), token, &port).ok());
  builder.RegisterService(&service);
  auto server = builder.BuildAndStart();
  ASSERT_GT(port, 0);
  auto channel = Connect("127.0.0.1:" + std::to_string(port));
  ASSERT_TRUE(channel.ok());
  EXPECT_TRUE(PingOver(*channel, token).ok());
  EXPECT_EQ(PingOver(*channel, Token()).code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(PingOver(*channel, *Token::Random()).code(), absl::StatusCode::kUnauthenticated);
}

TEST(Servers, OnAUnixSocketNeedAPrivateFolder) {
  TempFolder folder;
  const Address address = *Address::Parse("unix:" + folder.path() + "/s");
  {
    grpc::ServerBuilder builder;
    ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
    EXPECT_EQ(Listen(builder, address, Token()).code(), absl::StatusCode::kPermissionDenied);
  }
  ASSERT_EQ(chmod(folder.path().c_str(), 0700), 0);
  Ponger service{Token()};
  grpc::ServerBuilder builder;
  Configure(builder);
  ASSERT_TRUE(Listen(builder, address, Token()).ok());
  builder.RegisterService(&service);
  auto server = builder.BuildAndStart();
  EXPECT_TRUE(PingOver(*Connect(address.target()), Token()).ok());
  auto socket = ConnectUnix(address.path());
  ASSERT_TRUE(socket.ok());
  EXPECT_TRUE(PingOver(*ConnectOver(*std::move(socket)), Token()).ok());

  grpc::ServerBuilder second;
  EXPECT_EQ(Listen(second, address, Token()).code(), absl::StatusCode::kAlreadyExists);
}

TEST(Calls, WaitForTheServerUntilTheirDeadline) {
  TempFolder folder;
  const std::string address = "unix:" + folder.path() + "/s";
  auto channel = Connect(address);
  EXPECT_EQ(PingOver(*channel, Token(), Nanos::Millis(100)).code(), absl::StatusCode::kDeadlineExceeded);

  Ponger service{Token()};
  std::unique_ptr<grpc::Server> server;
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    grpc::ServerBuilder builder;
    Configure(builder);
    ASSERT_TRUE(Listen(builder, *Address::Parse(address), Token()).ok());
    builder.RegisterService(&service);
    server = builder.BuildAndStart();
  });
  EXPECT_TRUE(PingOver(*channel, Token()).ok());
  late.join();
}

}  // namespace
}  // namespace lockstep::rpc
