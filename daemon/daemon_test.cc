// Tests the whole daemon in this process, with real sockets, real gRPC, and client processes: captures, their
// failures, and the daemon's end.
#include "daemon/daemon.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "daemon/clients/client_fake.h"
#include "daemon/daemon_fixture.h"
#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

TEST_F(DaemonTest, ReportsRanksToTheAggregator) {
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
    EXPECT_EQ(seen.LastState("c1", pids[rank]).records(), 1001u + 100 * rank);  // the string is also a record
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
  // The aggregator's clock is 250 ms ahead. Without conversion T0 would lie after the first record.
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

TEST_F(DaemonTest, RunsSuccessiveCaptures) {
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

TEST_F(DaemonTest, CountsRecordsThatTheRingDropped) {
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

TEST_F(DaemonTest, CountsRecordsOfUnknownKind) {
  StartDaemon();
  const pid_t pid = StartClient(0, 10, "newer");
  ASSERT_TRUE(WaitForRanks(1));
  for (size_t round = 1; round <= 2; ++round) {
    Capture("c" + std::to_string(round), Nanos::Millis(20));
    ASSERT_TRUE(WaitForEnds(round));
    const Seen seen = aggregator_->seen();
    EXPECT_EQ(seen.Rows(kKernel, pid), 10 * round);
    EXPECT_EQ(seen.Lost(static_cast<columns::Kind>(0), "ring", pid), 3 * round);
    EXPECT_NE(seen.ends.back().losses(0).reason().find("the client is newer than lockstepd"),
              std::string::npos);
  }
}

TEST_F(DaemonTest, CountsRecordsDroppedForASlowAggregator) {
  options_.spool_bytes = 256u << 10;
  StartDaemon();
  constexpr uint64_t kProduced = 80'000;  // about 700 KiB of batches per rank
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

TEST_F(DaemonTest, ResendsUnstoredBatchesAfterABrokenStreamOnce) {
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

TEST_F(DaemonTest, KeepsRecordsOfARankThatDied) {
  StartDaemon();
  const pid_t dies = StartClient(0, 500, "die_capturing");
  const pid_t survivor = StartClient(1, 700);
  ASSERT_TRUE(WaitForRanks(2));
  Capture("c1");
  ASSERT_TRUE(WaitForEnds(2));
  const Seen seen = aggregator_->seen();
  EXPECT_EQ(seen.Rows(kKernel, dies), 500u);
  EXPECT_EQ(seen.Rows(kKernel, survivor), 700u);
  EXPECT_EQ(seen.LastState("c1", dies).state(), v1::RankState::GONE);
  EXPECT_NE(seen.LastState("c1", dies).text().find("while capturing"), std::string::npos)
      << seen.LastState("c1", dies).text();
}

TEST_F(DaemonTest, ReportsRanksThatDieFailOrDoNotArm) {
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
  EXPECT_EQ(seen.LastState("c1", fails).text(), "CUPTI is held by another tool");
  EXPECT_EQ(seen.LastState("c1", silent).state(), v1::RankState::FAILED);
  EXPECT_NE(seen.LastState("c1", silent).text().find("did not arm in time"), std::string::npos);
}

TEST_F(DaemonTest, SurvivesACorruptRing) {
  StartDaemon();
  const pid_t corrupt = StartClient(0, 50, "lie");
  const pid_t valid = StartClient(1, 5000);
  ASSERT_TRUE(WaitForRanks(2));
  Capture("c1");
  ASSERT_TRUE(WaitForEnds(2));
  const Seen seen = aggregator_->seen();
  EXPECT_EQ(seen.Rows(kKernel, valid), 5000u);
  EXPECT_EQ(seen.Lost(static_cast<columns::Kind>(0), "ring", corrupt), 1u);
}

TEST_F(DaemonTest, KeepsTheRecordsOfAStoppedCapture) {
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

TEST_F(DaemonTest, SendsItsRecordsWhenItEndsDuringACapture) {
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
  // Each capture has its end: the refused one at once, the other one with its records.
  ASSERT_TRUE(WaitForEnds(2));
  const Seen seen = aggregator_->seen();
  EXPECT_EQ(seen.ends[0].capture(), "c2");
  EXPECT_EQ(seen.ends[1].capture(), "c1");
  EXPECT_EQ(seen.Rows(kKernel, pid), 10u);
}

// A rank whose log has a step of 10 ms, with one collective, in each 10 ms.
class SteppingClient {
 public:
  bool Register(const std::string& socket) {
    if (!client_.Connect(socket) ||
        !client_.Register("LOCKSTEP_JOB=j\nLOCKSTEP_RANK=0\nLOCKSTEP_WORLD_SIZE=2\n"))
      return false;
    ring::ProgressSlot& slot = *client_.segment().progress();
    slot.communicator = 7;
    slot.ranks = 2;
    slot.state = static_cast<uint32_t>(ring::ProgressState::kLiving);
    return true;
  }
  // Writes the steps that have begun since the last call.
  void WriteUntilNow() {
    const HostTime now = SystemClock().Realtime();
    if (next_ == HostTime()) next_ = now - Nanos::Seconds(1);
    for (; next_ < now; next_ += Nanos::Millis(10)) {
      ring::LogEntry& entry = client_.segment().log()[ring::LogPlace(++position_)];
      entry.kind = static_cast<uint32_t>(ring::LogKind::kOperation);
      entry.communicator = 7;
      entry.operation.number = position_;
      entry.operation.entered_ns = entry.operation.started_ns = next_.ns();
      entry.operation.completed_ns = (next_ + Nanos::Millis(4)).ns();
      entry.position = position_;
      client_.segment().header().log_newest = position_;
    }
  }
  uint64_t position() const { return position_; }

 private:
  FakeClient client_;
  HostTime next_;
  uint64_t position_ = 0;
};

TEST_F(DaemonTest, SendsStepsOnlyToAnAggregatorThatFollowsThem) {
  StartDaemon();
  SteppingClient client;
  ASSERT_TRUE(client.Register(options_.socket));
  ASSERT_TRUE(WaitForRanks(1));
  v1::FromAggregator follow;
  follow.mutable_follow_steps();
  const auto wait_for_steps = [&] {
    const size_t before = aggregator_->seen().steps.size();
    for (int i = 0; i < 1000 && aggregator_->seen().steps.size() < before + 5; ++i) {
      client.WriteUntilNow();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return aggregator_->seen().steps.size() >= before + 5;
  };
  client.WriteUntilNow();
  const uint64_t first = client.position();
  aggregator_->Send(follow);
  ASSERT_TRUE(wait_for_steps());
  EXPECT_GE(aggregator_->seen().steps.front().number(), first - 1) << "earlier steps are only learned from";
  for (const v1::StepRow& step : aggregator_->seen().steps) {
    EXPECT_EQ(step.period(), 1u);
    EXPECT_EQ(step.duration_ns(), Nanos::Millis(10).ns());
    EXPECT_EQ(step.communication_ns(), Nanos::Millis(4).ns());
  }
  const int streams = aggregator_->seen().streams;
  aggregator_->BreakStream();
  ASSERT_TRUE(aggregator_->WaitFor([&](const Seen& s) { return s.streams > streams; }));
  ASSERT_TRUE(WaitForRanks(1));
  client.WriteUntilNow();
  const size_t sent = aggregator_->seen().steps.size();
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  client.WriteUntilNow();
  EXPECT_EQ(aggregator_->seen().steps.size(), sent) << "the new stream has not asked";
  const uint64_t again = client.position();
  aggregator_->Send(follow);
  ASSERT_TRUE(wait_for_steps());
  EXPECT_GE(aggregator_->seen().steps[sent].number(), again - 3);
}

TEST_F(DaemonTest, TwoDaemonsDoNotShareASocket) {
  StartDaemon(With::kNothing);
  const auto second = CreateDaemon(options_, clock_, log_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  FakeClient client;
  EXPECT_TRUE(client.Connect(options_.socket));
}

TEST_F(DaemonTest, ExitsWhenIdleOnlyAfterItsLastClientLeft) {
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

TEST_F(DaemonTest, DoesNotExitWhileAnExpectedJobHasNotRegistered) {
  options_.idle_exit = Nanos::Millis(300);
  StartDaemon(With::kNothing);
  const std::string address = "LOCKSTEP_SOCKET=" + options_.socket;
  const pid_t job = fork();
  ASSERT_GE(job, 0);
  if (job == 0) {
    execlp("env", "env", address.c_str(), "sleep", "60", static_cast<char*>(nullptr));
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
