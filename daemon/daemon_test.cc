// The whole daemon in this process, with real sockets, real gRPC, and client processes.
#include "daemon/daemon.h"

#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <thread>

#include "common/rpc/channel.h"
#include "daemon/aggregator_fake.h"
#include "daemon/client_fake.h"
#include "daemon/temp_folder_fake.h"
#include "gtest/gtest.h"
#include "lockstep/v1/control.grpc.pb.h"

extern char** environ;

namespace lockstep::daemon {
namespace {

using Seen = FakeAggregator::Seen;
constexpr columns::Kind kKernel = columns::Kind::kKernel;

class DaemonTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.socket = folder_.path() + "/client.sock";
    options_.node_id = "test-node";
    options_.log_level = LogLevel::kError;
    FakeAggregator::Options fake;
    fake.address = "unix:" + folder_.path() + "/aggregator.sock";
    fake.clock_ahead = Nanos::Millis(250);
    aggregator_ = std::make_unique<FakeAggregator>(fake);
  }
  void TearDown() override {
    StopDaemon();
    for (pid_t pid : children_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    aggregator_.reset();
  }

  enum class With { kAggregator, kNothing };
  void StartDaemon(With with = With::kAggregator) {
    if (with == With::kAggregator) options_.aggregators = {aggregator_->address()};
    auto daemon = Daemon::Create(options_, clock_, processes_, log_);
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
    thread_ = std::thread([this] { daemon_->Run(); });
  }
  void StopDaemon() {
    if (!daemon_) return;
    daemon_->Stop();
    if (thread_.joinable()) thread_.join();
    daemon_.reset();
  }

  pid_t StartClient(int rank, uint64_t kernels, const std::string& behaviour = "ok") {
    const std::string identity =
        "LOCKSTEP_JOB=job\nLOCKSTEP_WORLD_SIZE=4\nLOCKSTEP_RANK=" + std::to_string(rank) + "\n";
    const std::string count = std::to_string(kernels);
    std::vector<const char*> argv = {LOCKSTEP_FAKE_CLIENT, options_.socket.c_str(), identity.c_str(),
                                     count.c_str(),        behaviour.c_str(),       nullptr};
    pid_t pid = 0;
    EXPECT_EQ(posix_spawn(&pid, argv[0], nullptr, nullptr, const_cast<char**>(argv.data()), environ), 0);
    children_.push_back(pid);
    return pid;
  }
  bool WaitForRanks(size_t count) {
    return aggregator_->WaitFor([&](const Seen& s) { return s.ranks.size() == count; });
  }
  bool WaitForState(const std::string& capture, pid_t pid, v1::RankState::State state) {
    return aggregator_->WaitFor([&](const Seen& s) { return s.LastState(capture, pid).state() == state; });
  }
  bool WaitForEnds(size_t count) {
    return aggregator_->WaitFor([&](const Seen& s) { return s.ends.size() == count; });
  }
  void Capture(const std::string& capture, Nanos length = Nanos::Millis(100)) {
    const std::vector<v1::Rank> ranks = aggregator_->seen().ranks;
    aggregator_->Arm(capture, ranks);
    for (const v1::Rank& rank : ranks) {
      ASSERT_TRUE(aggregator_->WaitFor([&](const Seen& s) {
        const auto state = s.LastState(capture, rank.process().pid()).state();
        return state != v1::RankState::STATE_UNSPECIFIED && state != v1::RankState::SEEN;
      }));
    }
    aggregator_->Start(capture, Nanos::Millis(50), length);
  }

  TempFolder folder_;
  SystemClock clock_;
  ProcFs processes_;
  Log log_{STDERR_FILENO, LogLevel::kError, clock_};
  Options options_;
  std::unique_ptr<FakeAggregator> aggregator_;
  std::unique_ptr<Daemon> daemon_;
  std::thread thread_;
  std::vector<pid_t> children_;
};

TEST_F(DaemonTest, TellsTheAggregatorWhoIsThere) {
  StartDaemon();
  const pid_t pid = StartClient(2, 0);
  ASSERT_TRUE(WaitForRanks(1));
  const v1::Rank rank = aggregator_->seen().ranks[0];
  EXPECT_EQ(rank.process().pid(), pid);
  EXPECT_GT(rank.process().start_ticks(), 0u);
  EXPECT_EQ(rank.uid(), getuid());
  EXPECT_EQ(rank.job(), "job");
  EXPECT_EQ(rank.rank(), 2);
  EXPECT_EQ(rank.world_size(), 4);
  EXPECT_EQ(rank.incarnation(), 1u);
  kill(pid, SIGKILL);
  EXPECT_TRUE(WaitForRanks(0));
  StartClient(2, 0);
  ASSERT_TRUE(WaitForRanks(1));
  EXPECT_EQ(aggregator_->seen().ranks[0].incarnation(), 2u);
}

TEST_F(DaemonTest, CapturesEveryRecordOfEveryRank) {
  StartDaemon();
  std::vector<pid_t> pids;
  for (int rank = 0; rank < 4; ++rank) pids.push_back(StartClient(rank, 1000 + 100 * rank));
  ASSERT_TRUE(WaitForRanks(4));
  Capture("c1");
  ASSERT_TRUE(WaitForEnds(4));
  const Seen seen = aggregator_->seen();
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(seen.Rows(kKernel, pids[rank]), 1000u + 100 * rank);
    EXPECT_EQ(seen.LastState("c1", pids[rank]).state(), v1::RankState::DONE);
    EXPECT_EQ(seen.LastState("c1", pids[rank]).records(), 1001u + 100 * rank);  // and the string
    std::vector<v1::RankState::State> path;
    for (const auto& state : seen.states.at("c1").at(pids[rank])) path.push_back(state.state());
    EXPECT_EQ(path, (std::vector<v1::RankState::State>{v1::RankState::SEEN, v1::RankState::ARMED,
                                                       v1::RankState::CAPTURING, v1::RankState::DONE}));
  }
  EXPECT_EQ(seen.Rows(columns::Kind::kString), 4u);
  EXPECT_TRUE(seen.gaps.empty());
  EXPECT_EQ(seen.Lost(kKernel, ""), 0u);
  EXPECT_EQ(seen.holes, 0);
  for (const v1::CaptureEnd& end : seen.ends) {
    EXPECT_EQ(end.capture(), "c1");
    EXPECT_NEAR(static_cast<double>(end.t1_host_ns() - end.t0_host_ns()), 100e6, 1e6);
  }
}

TEST_F(DaemonTest, ConvertsTheWindowToItsOwnClock) {
  StartDaemon();
  StartClient(0, 10);
  ASSERT_TRUE(WaitForRanks(1));
  Capture("c1");
  ASSERT_TRUE(WaitForEnds(1));
  // The aggregator's clock is 250 ms ahead: unconverted, T0 would lie beyond the first record.
  const Seen seen = aggregator_->seen();
  columns::DecodedBlock block;
  uint64_t first = 0;
  std::span<const std::byte> rest = std::as_bytes(std::span(seen.batches.at(0).blocks()));
  while (!rest.empty()) {
    const auto taken = columns::Decode(rest, block);
    ASSERT_TRUE(taken.ok());
    if (block.kind == kKernel) first = block.columns[columns::kernel::kStart][0];
    rest = rest.subspan(*taken);
  }
  EXPECT_EQ(static_cast<int64_t>(first), seen.ends[0].t0_host_ns());
  EXPECT_LT(std::abs(clock_.Realtime().ns() - seen.ends[0].t1_host_ns()), Nanos::Seconds(5).ns());
  EXPECT_GE(seen.samples.size(), 20u);
}

TEST_F(DaemonTest, CapturesAgainAndAgain) {
  StartDaemon();
  const pid_t pid = StartClient(0, 100);
  ASSERT_TRUE(WaitForRanks(1));
  for (size_t round = 1; round <= 12; ++round) {
    const std::string capture = "c" + std::to_string(round);
    Capture(capture, Nanos::Millis(20));
    ASSERT_TRUE(WaitForEnds(round));
    EXPECT_EQ(aggregator_->seen().Rows(kKernel, pid), 100 * round);
  }
}

TEST_F(DaemonTest, CountsWhatDidNotFitIntoTheRing) {
  options_.ring_bytes = 64u << 10;
  StartDaemon();
  constexpr uint64_t kProduced = 100'000;
  const pid_t pid = StartClient(0, kProduced);
  ASSERT_TRUE(WaitForRanks(1));
  Capture("c1");
  ASSERT_TRUE(WaitForEnds(1));
  const Seen seen = aggregator_->seen();
  EXPECT_GT(seen.Lost(kKernel, "ring", pid), 0u);
  EXPECT_EQ(seen.Rows(kKernel, pid) + seen.Lost(kKernel, "", pid), kProduced);
}

TEST_F(DaemonTest, CountsWhatASlowAggregatorMadeItDrop) {
  options_.spool_bytes = 256u << 10;
  StartDaemon();
  constexpr uint64_t kProduced = 80'000;  // some 700 KiB of batches per rank
  const pid_t a = StartClient(0, kProduced);
  const pid_t b = StartClient(1, kProduced);
  ASSERT_TRUE(WaitForRanks(2));
  aggregator_->SetAcks(FakeAggregator::Acks::kOff);
  Capture("c1", Nanos::Millis(300));
  std::this_thread::sleep_for(std::chrono::seconds(1));
  aggregator_->SetAcks(FakeAggregator::Acks::kOn);
  ASSERT_TRUE(WaitForEnds(2));
  const Seen seen = aggregator_->seen();
  EXPECT_GT(seen.Lost(kKernel, "spool"), 0u);
  for (pid_t pid : {a, b}) EXPECT_EQ(seen.Rows(kKernel, pid) + seen.Lost(kKernel, "", pid), kProduced);
  EXPECT_EQ(seen.holes, 0);
  EXPECT_EQ(seen.duplicates, 0);
}

TEST_F(DaemonTest, SendsAgainWhatABrokenStreamTookAndNothingTwice) {
  StartDaemon();
  constexpr uint64_t kProduced = 60'000;
  const pid_t pid = StartClient(0, kProduced);
  ASSERT_TRUE(WaitForRanks(1));
  aggregator_->SetAcks(FakeAggregator::Acks::kOff);
  Capture("c1", Nanos::Millis(200));
  ASSERT_TRUE(aggregator_->WaitFor([](const Seen& s) { return s.stored_through >= 1; }));
  for (int breaks = 0; breaks < 3; ++breaks) {
    const int streams = aggregator_->seen().streams;
    aggregator_->BreakStream();
    ASSERT_TRUE(aggregator_->WaitFor([&](const Seen& s) { return s.streams > streams; }));
  }
  aggregator_->SetAcks(FakeAggregator::Acks::kOn);
  ASSERT_TRUE(WaitForEnds(1));
  const Seen seen = aggregator_->seen();
  EXPECT_EQ(seen.Rows(kKernel, pid), kProduced);
  EXPECT_EQ(seen.holes, 0);
  EXPECT_EQ(seen.LastState("c1", pid).state(), v1::RankState::DONE);
}

TEST_F(DaemonTest, KeepsWhatARankRecordedBeforeItDied) {
  StartDaemon();
  const pid_t dies = StartClient(0, 500, "die_capturing");
  const pid_t lives = StartClient(1, 700);
  ASSERT_TRUE(WaitForRanks(2));
  Capture("c1");
  ASSERT_TRUE(WaitForEnds(2));
  const Seen seen = aggregator_->seen();
  EXPECT_EQ(seen.Rows(kKernel, dies), 500u);
  EXPECT_EQ(seen.Rows(kKernel, lives), 700u);
  EXPECT_EQ(seen.LastState("c1", dies).state(), v1::RankState::GONE);
  EXPECT_NE(seen.LastState("c1", dies).text().find("while capturing"), std::string::npos)
      << seen.LastState("c1", dies).text();
}

TEST_F(DaemonTest, NamesRanksThatDieOrFailOrDoNotAnswerWhenArmed) {
  StartDaemon();
  const pid_t arming = StartClient(0, 1, "die_arming");
  const pid_t armed = StartClient(1, 1, "die_armed");
  const pid_t fails = StartClient(2, 1, "fail");
  const pid_t silent = StartClient(3, 1, "ignore_arm");
  ASSERT_TRUE(WaitForRanks(4));
  aggregator_->Arm("c1", aggregator_->seen().ranks, Nanos::Millis(500));
  ASSERT_TRUE(WaitForEnds(4));
  const Seen seen = aggregator_->seen();
  EXPECT_EQ(seen.LastState("c1", arming).state(), v1::RankState::GONE);
  EXPECT_EQ(seen.LastState("c1", armed).state(), v1::RankState::GONE);
  EXPECT_EQ(seen.LastState("c1", fails).state(), v1::RankState::FAILED);
  EXPECT_EQ(seen.LastState("c1", fails).text(), "CUPTI is held by somebody else");
  EXPECT_EQ(seen.LastState("c1", silent).state(), v1::RankState::FAILED);
  EXPECT_NE(seen.LastState("c1", silent).text().find("did not arm in time"), std::string::npos);
}

TEST_F(DaemonTest, SurvivesARingThatLies) {
  StartDaemon();
  const pid_t liar = StartClient(0, 50, "lie");
  const pid_t honest = StartClient(1, 5000);
  ASSERT_TRUE(WaitForRanks(2));
  Capture("c1");
  ASSERT_TRUE(WaitForEnds(2));
  const Seen seen = aggregator_->seen();
  EXPECT_EQ(seen.Rows(kKernel, honest), 5000u);
  EXPECT_EQ(seen.Lost(static_cast<columns::Kind>(0), "ring", liar), 1u);
}

TEST_F(DaemonTest, StopsACaptureEarlyAndKeepsIt) {
  StartDaemon();
  const pid_t pid = StartClient(0, 100);
  ASSERT_TRUE(WaitForRanks(1));
  Capture("c1", Nanos::Seconds(60));
  ASSERT_TRUE(WaitForState("c1", pid, v1::RankState::CAPTURING));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  aggregator_->Stop("c1", FakeAggregator::StopMode::kKeep);
  ASSERT_TRUE(WaitForEnds(1));
  const Seen seen = aggregator_->seen();
  EXPECT_EQ(seen.Rows(kKernel, pid), 100u);
  EXPECT_EQ(seen.LastState("c1", pid).state(), v1::RankState::DONE);
  EXPECT_LT(seen.ends[0].t1_host_ns() - seen.ends[0].t0_host_ns(), Nanos::Seconds(10).ns());
}

TEST_F(DaemonTest, SendsWhatItHasWhenItIsEndedDuringACapture) {
  StartDaemon();
  const pid_t pid = StartClient(0, 300);
  ASSERT_TRUE(WaitForRanks(1));
  Capture("c1", Nanos::Seconds(60));
  ASSERT_TRUE(WaitForState("c1", pid, v1::RankState::CAPTURING));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const MonoTime before = clock_.Monotonic();
  StopDaemon();
  EXPECT_LT(clock_.Monotonic() - before, Nanos::Seconds(8));
  EXPECT_EQ(aggregator_->seen().Rows(kKernel, pid), 300u);
  EXPECT_EQ(aggregator_->seen().ends.size(), 1u);
  EXPECT_NE(access(options_.socket.c_str(), F_OK), 0);
}

TEST_F(DaemonTest, OneRankIsInOneCaptureAtATime) {
  StartDaemon();
  const pid_t pid = StartClient(0, 10);
  ASSERT_TRUE(WaitForRanks(1));
  Capture("c1", Nanos::Millis(500));
  aggregator_->Arm("c2", aggregator_->seen().ranks);
  ASSERT_TRUE(WaitForState("c2", pid, v1::RankState::FAILED));
  EXPECT_NE(aggregator_->seen().LastState("c2", pid).text().find("c1"), std::string::npos);
  // Each has its end: the refused one at once, the other with its records.
  ASSERT_TRUE(WaitForEnds(2));
  const Seen seen = aggregator_->seen();
  EXPECT_EQ(seen.ends[0].capture(), "c2");
  EXPECT_EQ(seen.ends[1].capture(), "c1");
  EXPECT_EQ(seen.Rows(kKernel, pid), 10u);
}

class Control : public DaemonTest {
 protected:
  std::unique_ptr<v1::Node::Stub> Stub() {
    auto socket = rpc::ConnectUnix(folder_.path() + "/control.sock");
    EXPECT_TRUE(socket.ok()) << socket.status();
    return v1::Node::NewStub(*rpc::ConnectOver(*std::move(socket)));
  }
  std::string Dial(const std::string& address) {
    grpc::ClientContext context;
    rpc::Prepare(context, rpc::Token(), Nanos::Seconds(10));
    v1::DialRequest request;
    request.set_address(address);
    v1::DialReply reply;
    const grpc::Status status = Stub()->Dial(&context, request, &reply);
    return status.ok() ? reply.error() : "rpc: " + status.error_message();
  }
};

TEST_F(Control, ShowsTheRanksOverASocketOfThisUsers) {
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
  ASSERT_EQ(reply.daemons(0).ranks_size(), 1);
  EXPECT_EQ(reply.daemons(0).ranks(0).job(), "mine");
  EXPECT_EQ(reply.daemons(0).ranks(0).rank(), 1);
}

TEST_F(Control, DialsAnAggregatorThatThenCaptures) {
  StartDaemon(With::kNothing);
  const pid_t pid = StartClient(0, 250);
  // The client registers some time after it was started.
  for (int i = 0; i < 100 && aggregator_->seen().ranks.empty(); ++i) {
    ASSERT_EQ(Dial(aggregator_->address()), "");
    ASSERT_TRUE(aggregator_->WaitFor([](const Seen& s) { return s.rank_updates > 0; }));
    if (WaitForRanks(1)) break;
  }
  Capture("c1");
  ASSERT_TRUE(WaitForEnds(1));
  EXPECT_EQ(aggregator_->seen().Rows(kKernel, pid), 250u);
}

TEST_F(Control, EndsTheCaptureOfADialledAggregatorThatWentAway) {
  StartDaemon(With::kNothing);
  const pid_t pid = StartClient(0, 10);
  ASSERT_EQ(Dial(aggregator_->address()), "");
  ASSERT_TRUE(WaitForRanks(1));
  Capture("c1", Nanos::Seconds(60));
  ASSERT_TRUE(WaitForState("c1", pid, v1::RankState::CAPTURING));
  aggregator_->BreakStream();
  // Free for the next one, well before the window's end.
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

TEST_F(Control, SaysWhyItCannotDial) {
  StartDaemon(With::kNothing);
  EXPECT_NE(Dial("unix:" + folder_.path() + "/nobody").find("nobody"), std::string::npos);
  EXPECT_NE(Dial("127.0.0.1:9").find("Unix"), std::string::npos);
  EXPECT_NE(Dial("nonsense").find("nonsense"), std::string::npos);
  FakeAggregator::Options fake;
  fake.address = "unix:" + folder_.path() + "/refuses.sock";
  fake.refuse = "too new";
  FakeAggregator refuses(fake);
  EXPECT_NE(Dial(refuses.address()).find("too new"), std::string::npos);
}

// A connection made with another user's identity, as the kernel tells it. Linux keeps that per thread.
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

TEST_F(Control, ServesEachUserForTheirOwnRanksOnly) {
  if (geteuid() != 0) {
    std::cout << "only root can be somebody else: run this test as root to see that users are kept apart\n";
    StartDaemon(With::kNothing);
    FakeClient mine;
    ASSERT_TRUE(mine.Connect(options_.socket));
    EXPECT_TRUE(mine.Register(""));
    return;
  }
  constexpr uid_t kSomebody = 65534;
  ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
  StartDaemon(With::kNothing);
  FakeClient roots;
  ASSERT_TRUE(roots.Connect(options_.socket));
  ASSERT_TRUE(roots.Register("LOCKSTEP_JOB=roots\n"));

  auto stub = v1::Node::NewStub(*rpc::ConnectOver(ConnectAs(kSomebody, folder_.path() + "/control.sock")));
  grpc::ClientContext status_context;
  rpc::Prepare(status_context, rpc::Token(), Nanos::Seconds(10));
  v1::StatusReply status;
  ASSERT_TRUE(stub->Status(&status_context, v1::StatusRequest(), &status).ok());
  ASSERT_EQ(status.daemons_size(), 1);
  EXPECT_EQ(status.daemons(0).ranks_size(), 0);

  // Root's daemon reaches root's sockets; somebody else must not make it.
  ASSERT_EQ(chmod((folder_.path() + "/aggregator.sock").c_str(), 0666), 0);
  grpc::ClientContext dial_context;
  rpc::Prepare(dial_context, rpc::Token(), Nanos::Seconds(10));
  v1::DialRequest request;
  request.set_address(aggregator_->address());
  v1::DialReply dialled;
  ASSERT_TRUE(stub->Dial(&dial_context, request, &dialled).ok());
  EXPECT_NE(dialled.error().find("not yours"), std::string::npos) << dialled.error();
}

TEST_F(DaemonTest, TwoDaemonsDoNotShareASocket) {
  StartDaemon(With::kNothing);
  const auto second = Daemon::Create(options_, clock_, processes_, log_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  FakeClient client;
  EXPECT_TRUE(client.Connect(options_.socket));
}

TEST_F(DaemonTest, EndsByItselfOnlyWhenItsLastClientHasGone) {
  options_.idle_exit = Nanos::Millis(300);
  StartDaemon(With::kNothing);
  FakeClient client;
  ASSERT_TRUE(client.Connect(options_.socket));
  ASSERT_TRUE(client.Register(""));
  std::this_thread::sleep_for(std::chrono::milliseconds(900));
  EXPECT_EQ(access(options_.socket.c_str(), F_OK), 0);
  const MonoTime left = clock_.Monotonic();
  client.Disconnect();
  thread_.join();
  EXPECT_GE(clock_.Monotonic() - left, Nanos::Millis(250));
  daemon_.reset();
  EXPECT_NE(access(options_.socket.c_str(), F_OK), 0);
}

TEST_F(DaemonTest, WaitsForAJobThatWasToldOfItAndHasNotComeYet) {
  options_.idle_exit = Nanos::Millis(300);
  StartDaemon(With::kNothing);
  const std::string told = "LOCKSTEP_SOCKET=" + options_.socket;
  const pid_t job = fork();
  ASSERT_GE(job, 0);
  if (job == 0) {
    execlp("env", "env", told.c_str(), "sleep", "60", static_cast<char*>(nullptr));
    _exit(127);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  EXPECT_EQ(access(options_.socket.c_str(), F_OK), 0);
  kill(job, SIGKILL);
  waitpid(job, nullptr, 0);
  thread_.join();
}

}  // namespace
}  // namespace lockstep::daemon
