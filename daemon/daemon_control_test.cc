// Tests the daemon's control socket: Status, Dial, and that each user reaches only their own processes.
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/rpc/channel.h"
#include "daemon/clients/client_fake.h"
#include "daemon/daemon_fixture.h"
#include "gtest/gtest.h"
#include "lockstep/v1/control.grpc.pb.h"

namespace lockstep::daemon {
namespace {

class Control : public DaemonTest {
 protected:
  std::unique_ptr<v1::Node::Stub> Stub() {
    auto socket = rpc::ConnectUnix(folder_.path() + "/control.sock");
    EXPECT_TRUE(socket.ok()) << socket.status();
    return v1::Node::NewStub(*rpc::ConnectOver(*std::move(socket)));
  }
  std::string Dial(const std::string& address, const std::string& token = "") {
    grpc::ClientContext context;
    rpc::Prepare(context, rpc::Token(), Nanos::Seconds(10));
    v1::DialRequest request;
    request.set_address(address);
    request.set_token(token);
    v1::DialReply reply;
    const grpc::Status status = Stub()->Dial(&context, request, &reply);
    return status.ok() ? reply.error() : "rpc: " + status.error_message();
  }
};

TEST_F(Control, ShowsRanksOverTheUsersSocket) {
  StartDaemon(With::kNothing);
  FakeClient client;
  ASSERT_TRUE(client.Connect(options_.socket));
  ASSERT_TRUE(client.Register("LOCKSTEP_JOB=mine\nLOCKSTEP_RANK=1\nLOCKSTEP_WORLD_SIZE=2\n"));
  grpc::ClientContext context;
  rpc::Prepare(context, rpc::Token(), Nanos::Seconds(10));
  v1::StatusReply reply;
  const grpc::Status status = Stub()->Status(&context, v1::StatusRequest(), &reply);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(reply.daemons_size(), 1);
  EXPECT_EQ(reply.daemons(0).node_id(), "test-node");
  EXPECT_EQ(reply.daemons(0).host_name(), "test-name");
  ASSERT_EQ(reply.daemons(0).ranks_size(), 1);
  EXPECT_EQ(reply.daemons(0).ranks(0).job(), "mine");
  EXPECT_EQ(reply.daemons(0).ranks(0).rank(), 1);
}

TEST_F(Control, DialsAnAggregatorThatThenCaptures) {
  StartDaemon(With::kNothing);
  const pid_t pid = StartClient(0, 250);
  // The client registers some time after its start.
  for (int i = 0; i < 100 && aggregator_->seen().ranks.empty(); ++i) {
    ASSERT_EQ(Dial(aggregator_->address()), "");
    ASSERT_TRUE(aggregator_->WaitFor([](const Seen& s) { return s.rank_updates > 0; }));
    if (WaitForRanks(1)) break;
  }
  Capture("c1");
  ASSERT_TRUE(WaitForEnds(1));
  EXPECT_EQ(aggregator_->seen().Rows(kKernel, pid), 250u);
}

TEST_F(Control, EndsTheCaptureOfADialledAggregatorThatDisconnects) {
  StartDaemon(With::kNothing);
  const pid_t pid = StartClient(0, 10);
  ASSERT_EQ(Dial(aggregator_->address()), "");
  ASSERT_TRUE(WaitForRanks(1));
  Capture("c1", Nanos::Seconds(60));
  ASSERT_TRUE(WaitForState("c1", pid, v1::RankState::CAPTURING));
  aggregator_->BreakStream();
  // The process is free for the next capture well before the window's end.
  aggregator_.reset();
  FakeAggregator::Options fake;
  fake.address = "unix:" + folder_.path() + "/second.sock";
  aggregator_ = std::make_unique<FakeAggregator>(fake);
  ASSERT_EQ(Dial(aggregator_->address()), "");
  ASSERT_TRUE(WaitForRanks(1));
  Capture("c2");
  ASSERT_TRUE(WaitForEnds(1));
  EXPECT_EQ(aggregator_->seen().LastState("c2", pid).state(), v1::RankState::DONE);
}

TEST_F(Control, AuditsDialsAndCaptures) {
  options_.audit_file = folder_.path() + "/audit.jsonl";
  StartDaemon(With::kNothing);
  const pid_t pid = StartClient(0, 10);
  ASSERT_EQ(Dial(aggregator_->address()), "");
  ASSERT_TRUE(WaitForRanks(1));
  Capture("c1");
  ASSERT_TRUE(WaitForEnds(1));
  EXPECT_EQ(aggregator_->seen().LastState("c1", pid).state(), v1::RankState::DONE);
  EXPECT_NE(Dial("127.0.0.1:9"), "");
  StopDaemon();
  std::ifstream file(options_.audit_file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  const std::string by_kernel = "\"by\":\"kernel\",\"uid\":" + std::to_string(geteuid());
  const auto count = [&](const std::string& part) {
    return std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.find(part) != std::string::npos && line.find(by_kernel) != std::string::npos;
    });
  };
  EXPECT_EQ(count("\"what\":\"dial\""), 4);
  EXPECT_EQ(count("\"stage\":\"end\",\"result\":\"ok\""), 1);
  EXPECT_EQ(count("\"stage\":\"end\",\"result\":\"failed\",\"text\":\"a token must have 16 to"), 1);
  EXPECT_EQ(count("\"what\":\"arm\""), 1);
  EXPECT_EQ(count("\"capture\":\"c1\",\"captured_ranks\":1"), 1);
}

TEST_F(Control, ConnectsToAJobsAggregatorOnceAndReconnects) {
  StartDaemon(With::kNothing);
  const rpc::Token token = *rpc::Token::Random();
  FakeAggregator::Options fake;
  fake.address = "127.0.0.1:0";
  fake.token = token;
  aggregator_ = std::make_unique<FakeAggregator>(fake);
  StartClient(0, 10);
  // Each rank of the job passes the same aggregator.
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Dial(aggregator_->address(), token.text()), "");
  ASSERT_TRUE(WaitForRanks(1));
  EXPECT_EQ(aggregator_->seen().streams, 1);
  aggregator_->BreakStream();
  ASSERT_TRUE(aggregator_->WaitFor([](const Seen& s) { return s.streams == 2; }));
  Capture("c1");
  EXPECT_TRUE(WaitForEnds(1));
}

TEST_F(Control, LimitsTheAggregatorsOfOneUser) {
  StartDaemon(With::kNothing);
  const std::string token = rpc::Token::Random()->text();
  for (int port = 1; port <= 16; ++port) EXPECT_EQ(Dial("127.0.0.1:" + std::to_string(port), token), "");
  EXPECT_NE(Dial("127.0.0.1:17", token).find("removed after a minute"), std::string::npos);
  EXPECT_EQ(Dial("127.0.0.1:3", token), "") << "one of them";
}

TEST_F(Control, ReportsWhyItCannotDial) {
  StartDaemon(With::kNothing);
  EXPECT_NE(Dial("unix:" + folder_.path() + "/nobody").find("nobody"), std::string::npos);
  EXPECT_NE(Dial("127.0.0.1:9").find("token"), std::string::npos)
      << "every user can connect to a port without a token";
  EXPECT_NE(Dial("unix:relative").find("absolute"), std::string::npos);
  EXPECT_NE(Dial("nonsense").find("nonsense"), std::string::npos);
  FakeAggregator::Options fake;
  fake.address = "unix:" + folder_.path() + "/refuses.sock";
  fake.refuse = "too new";
  FakeAggregator refuses(fake);
  EXPECT_NE(Dial(refuses.address()).find("too new"), std::string::npos);
}

class JobControl : public Control {
 protected:
  grpc::Status Begin(v1::Node::Stub& stub, uint32_t job, uid_t uid, int32_t pid, v1::BeginJobReply* reply) {
    grpc::ClientContext context;
    rpc::Prepare(context, rpc::Token(), Nanos::Seconds(10));
    v1::BeginJobRequest request;
    request.set_job(job);
    request.set_uid(uid);
    request.set_step(0);
    request.set_pid(pid);
    return stub.BeginJob(&context, request, reply);
  }
};

TEST_F(JobControl, AStepHasItsProcessesUntilTheSchedulerEndsIt) {
  StartDaemon();
  v1::BeginJobReply reply;
  // This process is the parent of the clients, like slurmstepd.
  const grpc::Status begun = Begin(*Stub(), 4711, geteuid(), getpid(), &reply);
  ASSERT_TRUE(begun.ok()) << begun.error_message();
  EXPECT_EQ(reply.name(), "4711.0");
  const pid_t pid = StartClient(0, 10, "ok");
  ASSERT_TRUE(WaitForRanks(1));
  EXPECT_EQ(aggregator_->seen().ranks[0].job(), "job") << "LOCKSTEP_JOB is the user's own choice";
  EXPECT_EQ(aggregator_->seen().ranks[0].scheduler_job(), "4711");
  EXPECT_TRUE(aggregator_->seen().ranks[0].job_by_scheduler());
  EXPECT_EQ(aggregator_->seen().ranks[0].process().pid(), pid);

  grpc::ClientContext context;
  rpc::Prepare(context, rpc::Token(), Nanos::Seconds(10));
  v1::EndJobRequest end;
  end.set_job(4711);
  v1::EndJobReply ended;
  EXPECT_TRUE(Stub()->EndJob(&context, end, &ended).ok());
  EXPECT_EQ(Begin(*Stub(), 4711, geteuid(), 1 << 28, &reply).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

// Returns a connection with another user's identity, as the kernel reports it. Linux keeps the identity per
// thread.
Fd ConnectAs(uid_t uid, const std::string& path) {
  Fd socket;
  std::thread other([&] {
    if (syscall(SYS_setresuid, -1, uid, -1) != 0) return;
    auto connected = rpc::ConnectUnix(path);
    if (connected.ok()) socket = *std::move(connected);
  });
  other.join();
  return socket;
}

TEST_F(JobControl, OnlyTheSchedulersUserMayReportJobs) {
  if (geteuid() != 0) {
    std::cout << "only root can act as other users: run this test as root to check refusals\n";
    return;
  }
  ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
  StartDaemon(With::kNothing);
  auto stub = v1::Node::NewStub(*rpc::ConnectOver(ConnectAs(65534, folder_.path() + "/control.sock")));
  v1::BeginJobReply reply;
  EXPECT_EQ(Begin(*stub, 4711, 65534, 0, &reply).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  grpc::ClientContext context;
  rpc::Prepare(context, rpc::Token(), Nanos::Seconds(10));
  v1::EndJobReply ended;
  EXPECT_EQ(stub->EndJob(&context, v1::EndJobRequest(), &ended).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(Control, ShowsEachUserOnlyTheirOwnRanks) {
  if (geteuid() != 0) {
    std::cout << "only root can act as other users: run this test as root to check the separation of users\n";
    StartDaemon(With::kNothing);
    FakeClient mine;
    ASSERT_TRUE(mine.Connect(options_.socket));
    EXPECT_TRUE(mine.Register(""));
    return;
  }
  constexpr uid_t kOtherUser = 65534;
  ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
  StartDaemon(With::kNothing);
  FakeClient roots;
  ASSERT_TRUE(roots.Connect(options_.socket));
  ASSERT_TRUE(roots.Register("LOCKSTEP_JOB=roots\n"));

  auto stub = v1::Node::NewStub(*rpc::ConnectOver(ConnectAs(kOtherUser, folder_.path() + "/control.sock")));
  grpc::ClientContext status_context;
  rpc::Prepare(status_context, rpc::Token(), Nanos::Seconds(10));
  v1::StatusReply status;
  ASSERT_TRUE(stub->Status(&status_context, v1::StatusRequest(), &status).ok());
  ASSERT_EQ(status.daemons_size(), 1);
  EXPECT_EQ(status.daemons(0).ranks_size(), 0);

  // Root's daemon can reach root's sockets, but must not do so for another user.
  ASSERT_EQ(chmod((folder_.path() + "/aggregator.sock").c_str(), 0666), 0);
  grpc::ClientContext dial_context;
  rpc::Prepare(dial_context, rpc::Token(), Nanos::Seconds(10));
  v1::DialRequest request;
  request.set_address(aggregator_->address());
  v1::DialReply dialled;
  ASSERT_TRUE(stub->Dial(&dial_context, request, &dialled).ok());
  EXPECT_NE(dialled.error().find("belongs to user"), std::string::npos) << dialled.error();
}

TEST_F(Control, RolesDecideWhatUsersSeeAndCapture) {
  if (geteuid() != 0) {
    std::cout << "only root can act as other users: run this test as root to check roles\n";
    return;
  }
  constexpr uid_t kViewer = 65534, kAdmin = 65533;
  options_.roles = {.viewers = {"65534"}, .operators = {"root"}, .admins = {"65533"}};
  ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
  StartDaemon(With::kNothing);
  FakeClient roots;
  ASSERT_TRUE(roots.Connect(options_.socket));
  ASSERT_TRUE(roots.Register("LOCKSTEP_JOB=roots\n"));
  const auto shown = [&](uid_t user) {
    auto stub = v1::Node::NewStub(*rpc::ConnectOver(ConnectAs(user, folder_.path() + "/control.sock")));
    grpc::ClientContext context;
    rpc::Prepare(context, rpc::Token(), Nanos::Seconds(10));
    v1::StatusReply status;
    EXPECT_TRUE(stub->Status(&context, v1::StatusRequest(), &status).ok());
    return status.daemons(0).ranks_size();
  };
  EXPECT_EQ(shown(kViewer), 1);
  EXPECT_EQ(shown(kAdmin), 1);
  EXPECT_EQ(shown(65532), 0);
  const auto dialled = [&](uid_t user, const std::string& address) {
    auto stub = v1::Node::NewStub(*rpc::ConnectOver(ConnectAs(user, folder_.path() + "/control.sock")));
    grpc::ClientContext context;
    rpc::Prepare(context, rpc::Token(), Nanos::Seconds(10));
    v1::DialRequest request;
    request.set_address(address);
    v1::DialReply reply;
    EXPECT_TRUE(stub->Dial(&context, request, &reply).ok());
    return reply.error();
  };
  for (const uid_t user : {kViewer, uid_t{65532}})
    EXPECT_NE(dialled(user, aggregator_->address()).find("--operators do not include you"),
              std::string::npos);
  // An admin's own socket would be reached; root's is still root's.
  ASSERT_EQ(chmod((folder_.path() + "/aggregator.sock").c_str(), 0666), 0);
  EXPECT_NE(dialled(kAdmin, aggregator_->address()).find("belongs to user"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::daemon
