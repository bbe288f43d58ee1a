// Captures the past of fake clients, through Captures as an aggregator does.
#include "daemon/captures/log_capture_path.h"

#include <optional>
#include <string>
#include <vector>

#include "daemon/clients/client_fake.h"
#include "daemon/clients/client_server_fixture.h"
#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

constexpr UplinkId kUplink = 1;

// One aggregator that may capture every process. Its clock is the host's.
class OneUplink final : public CaptureUplinks {
 public:
  OneUplink(const Clock& clock, losses::LossTable& losses)
      : spool_(std::make_shared<Spool>(size_t{64} << 20, clock, losses)) {
    spool_->Resume(0, 1000);
  }
  bool MayCapture(UplinkId, const ProcessId&, CaptureTime time) override {
    return time == CaptureTime::kPast;
  }
  Nanos AwayFor(UplinkId) override { return Nanos(); }
  HostTime ToHost(UplinkId, JobTime t) override { return HostTime(t.ns()); }
  std::shared_ptr<Spool> SpoolOf(UplinkId) override { return spool_; }
  void SendStates(UplinkId, v1::RankStates states) override { last = states.states(0); }
  void SendEnd(UplinkId, const ProcessId&, const std::string&) override {}
  void Discard(UplinkId, const std::string&) override {}

  std::vector<v1::FromDaemon> Sent() {
    std::vector<v1::FromDaemon> all;
    for (v1::FromDaemon message; spool_->Take(message);) all.push_back(message);
    return all;
  }

  v1::RankState last;

 private:
  std::shared_ptr<Spool> spool_;
};

class LogCapturePathTest : public ClientServerTest {
 protected:
  void SetUp() override {
    ClientServerTest::SetUp();
    Open();
    path_of_logs_.emplace(*loop_, *server_, departed_, captures_, log_);
    ASSERT_TRUE(client_.Connect(ClientServerTest::path_));
    ASSERT_TRUE(client_.Register("LOCKSTEP_JOB=j\nLOCKSTEP_RANK=3\nLOCKSTEP_WORLD_SIZE=4\n"));
  }

  // Writes a collective that began `ago` and took 1 ms.
  void Write(uint64_t position, Nanos ago, bool with_kernel = true) {
    ring::LogEntry& entry = client_.segment().log()[ring::LogPlace(position)];
    const int64_t entered = (clock_.Realtime() - ago).ns();
    entry.communicator = 7;
    entry.kind = static_cast<uint32_t>(ring::LogKind::kOperation);
    entry.operation.number = position;
    entry.operation.entered_ns = entered;
    entry.operation.launched_ns = entered + 1000;
    entry.operation.started_ns = with_kernel ? entered + 2000 : 0;
    entry.operation.completed_ns = with_kernel ? entered + 1'000'000 : 0;
    entry.operation.function.Set("AllReduce");
    entry.operation.position = position;
    entry.position = position;
    client_.segment().header().log_newest = position;
  }

  // Captures the last `past` and returns the rank's last state.
  v1::RankState Capture(Nanos past) {
    const std::string id = "c" + std::to_string(++captured_);
    OnLoop([&] {
      v1::Arm arm;
      arm.set_capture(id);
      ToProto(process_, arm.add_processes());
      captures_.OnArm(kUplink, arm);
      v1::Start start;
      start.set_capture(id);
      start.set_t0_ns((clock_.Realtime() - past).ns());
      start.set_t1_ns(clock_.Realtime().ns());
      captures_.OnStart(kUplink, start);
    });
    // Each turn of the loop posts the next one.
    for (int i = 0; i < 5; ++i) OnLoop([] {});
    return uplink_.last;
  }

  losses::LossTable losses_{{"ring", "spool"}};
  OneUplink uplink_{clock_, losses_};
  std::optional<LogCapturePath> path_of_logs_;
  // Captures uses the path only after its construction in SetUp.
  struct Later final : CapturePath {
    explicit Later(std::optional<LogCapturePath>& path) : to(path) {}
    bool Choose(const ProcessId& p, const std::string& c, uint32_t f) override { return to->Choose(p, c, f); }
    bool Send(const ProcessId& p, const ring::Arm& m) override { return to->Send(p, m); }
    bool Send(const ProcessId& p, const ring::Start& m) override { return to->Send(p, m); }
    bool Send(const ProcessId& p, const ring::Stop& m) override { return to->Send(p, m); }
    bool StartIterations(const ProcessId&, const KinetoIterations&, HostTime) override { return false; }
    bool KnowsTriggers(const ProcessId&) const override { return false; }
    Nanos Lead(const ProcessId&) const override { return Nanos(); }
    uint64_t BeginDrain(const ProcessId& p, const std::string& c, std::shared_ptr<Spool> s) override {
      return to->BeginDrain(p, c, std::move(s));
    }
    void RestartDrain(const ProcessId&) override {}
    void EndDrain(const ProcessId& p, uint64_t n, const HostInterval& w) override { to->EndDrain(p, n, w); }
    void AbandonDrain(const ProcessId& p) override { to->AbandonDrain(p); }
    std::optional<LogCapturePath>& to;
  };
  Later later_{path_of_logs_};
  Captures captures_{clock_, uplink_, later_, later_, [] {}, {}, CaptureTime::kPast};
  FakeClient client_;
  const ProcessId process_{getpid(), 555};
  int captured_ = 0;
};

TEST_F(LogCapturePathTest, SendsTheRecordsOfALivingProcess) {
  Write(1, Nanos::Seconds(20));
  Write(2, Nanos::Seconds(2));
  const v1::RankState state = Capture(Nanos::Seconds(10));
  EXPECT_EQ(state.state(), v1::RankState::DONE) << state.text();
  EXPECT_GT(state.records(), 0u);
  EXPECT_EQ(state.cut(), "");
  const std::vector<v1::FromDaemon> sent = uplink_.Sent();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].batch().capture(), "c1");
  // The kernel, the collective, and what joins them.
  EXPECT_EQ(sent[0].batch().rows(), 3u);
  const v1::CaptureEnd& end = sent[1].end();
  EXPECT_NEAR(static_cast<double>(end.t1_host_ns() - end.t0_host_ns()), 10e9, 1e8);
}

TEST_F(LogCapturePathTest, SendsTheRecordsOfAProcessThatHasLeft) {
  Write(1, Nanos::Seconds(2));
  client_.Disconnect();
  ASSERT_TRUE(WaitFor([&] { return gone_.size() == 1; }));
  const v1::RankState state = Capture(Nanos::Seconds(10));
  EXPECT_EQ(state.state(), v1::RankState::DONE) << state.text();
  EXPECT_EQ(state.cut(), "its program ended inside the window");
  EXPECT_EQ(uplink_.Sent().size(), 2u);
}

TEST_F(LogCapturePathTest, SaysWhyThereAreNoRecords) {
  v1::RankState state = Capture(Nanos::Seconds(10));
  EXPECT_EQ(state.state(), v1::RankState::FAILED);
  EXPECT_NE(state.text().find("keeps no operation log"), std::string::npos) << state.text();
  Write(1, Nanos::Seconds(20));
  state = Capture(Nanos::Seconds(10));
  EXPECT_EQ(state.state(), v1::RankState::FAILED);
  EXPECT_NE(state.text().find("longer --last"), std::string::npos) << state.text();
}

TEST_F(LogCapturePathTest, NeedsTimesOfKernels) {
  Write(1, Nanos::Seconds(2), false);
  const v1::RankState state = Capture(Nanos::Seconds(10));
  EXPECT_EQ(state.state(), v1::RankState::FAILED);
  EXPECT_NE(state.text().find("NCCL 2.26"), std::string::npos) << state.text();
}

TEST_F(LogCapturePathTest, SaysThatTheLogBeginsLaterThanTheWindow) {
  for (uint64_t position = 2; position <= ring::kLogEntries + 1; ++position)
    Write(position, Nanos::Seconds(5) - Nanos::Micros(static_cast<int64_t>(position)));
  const v1::RankState state = Capture(Nanos::Seconds(10));
  EXPECT_EQ(state.state(), v1::RankState::DONE) << state.text();
  EXPECT_NE(state.text().find("less than the window"), std::string::npos);
  const std::vector<v1::FromDaemon> sent = uplink_.Sent();
  const v1::CaptureEnd& end = sent.back().end();
  EXPECT_NEAR(static_cast<double>(end.t1_host_ns() - end.t0_host_ns()), 5e9, 1e9);
}

}  // namespace
}  // namespace lockstep::daemon
