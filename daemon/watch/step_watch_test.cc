#include "daemon/watch/step_watch.h"

#include <cstdint>
#include <vector>

#include "daemon/clients/client_fake.h"
#include "daemon/clients/client_server_fixture.h"
#include "daemon/node/clock_fake.h"
#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

class StepWatchTest : public ClientServerTest {
 protected:
  // Registers the client as a rank that has one communicator.
  void Join() {
    Open();
    ASSERT_TRUE(client_.Connect(path_));
    ASSERT_TRUE(client_.Register("LOCKSTEP_JOB=j\nLOCKSTEP_RANK=3\nLOCKSTEP_WORLD_SIZE=4\n"));
    ring::ProgressSlot& slot = *client_.segment().progress();
    slot.communicator = 7;
    slot.ranks = 4;
    slot.state = static_cast<uint32_t>(ring::ProgressState::kLiving);
  }
  void WriteMark() {
    ring::LogEntry& mark = client_.segment().log()[ring::LogPlace(++position_)];
    mark.kind = static_cast<uint32_t>(ring::LogKind::kMarkedStep);
    mark.operation.number = ++step_;
    mark.operation.entered_ns = now_ns_;
    mark.position = position_;
    client_.segment().header().log_newest = position_;
  }
  // Appends a step with one collective, which has ended, to the client's log.
  void WriteStep() {
    WriteMark();
    ring::LogEntry& entry = client_.segment().log()[ring::LogPlace(++position_)];
    entry.kind = static_cast<uint32_t>(ring::LogKind::kOperation);
    entry.communicator = 7;
    entry.operation.number = step_;
    entry.operation.entered_ns = entry.operation.started_ns = now_ns_ + 600'000;
    entry.operation.completed_ns = now_ns_ + 1'000'000;
    now_ns_ += 1'000'000;
    entry.position = position_;
    client_.segment().header().log_newest = position_;
  }
  std::vector<v1::StepRow> Rows() {
    MutexLock lock(&mutex_);
    return rows_;
  }
  void Take(const std::vector<v1::ProcessSteps>& all) {
    MutexLock lock(&mutex_);
    for (const v1::ProcessSteps& process : all)
      rows_.insert(rows_.end(), process.steps().begin(), process.steps().end());
    changed_.SignalAll();
  }

  uint64_t position_ = 0;
  uint64_t step_ = 0;
  FakeClient client_;
  FakeClock fake_;
  int64_t now_ns_ = fake_.Realtime().ns();
  std::vector<v1::StepRow> rows_;
};

TEST_F(StepWatchTest, PassesStepsOnAsTheyEnd) {
  Join();
  StepWatch watch(*loop_, fake_, registry_, *server_);
  for (int i = 0; i < 40; ++i) WriteStep();
  fake_.Advance(Nanos::Seconds(10));
  OnLoop([&] { watch.Start([this](const std::vector<v1::ProcessSteps>& all) { Take(all); }); });
  // The log tells how the steps are found, so that the next ones are passed on at once.
  now_ns_ = fake_.Realtime().ns();
  for (int i = 0; i < 4; ++i) WriteStep();
  fake_.Advance(Nanos::Seconds(10));
  ASSERT_TRUE(WaitFor([&] { return !rows_.empty() && rows_.back().number() == 43; }));
  EXPECT_GE(Rows().front().number(), 40u) << "earlier steps ended before the start";
  EXPECT_EQ(Rows().back().duration_ns(), 1'000'000);
  EXPECT_EQ(Rows().back().communication_ns(), 400'000);
  for (int i = 0; i < 2; ++i) WriteStep();
  ASSERT_TRUE(WaitFor([&] { return rows_.back().number() == 45; }));
  for (size_t i = 1; i < rows_.size(); ++i) EXPECT_EQ(rows_[i].number(), rows_[i - 1].number() + 1);
  OnLoop([&] { watch.Stop(); });
}

// The collective of an overwritten step would be missing in the next one.
TEST_F(StepWatchTest, BeginsAgainAfterOverwrittenOperations) {
  Join();
  StepWatch watch(*loop_, fake_, registry_, *server_);
  OnLoop([&] { watch.Start([this](const std::vector<v1::ProcessSteps>& all) { Take(all); }); });
  now_ns_ = fake_.Realtime().ns();
  fake_.Advance(Nanos::Seconds(100));
  for (int i = 0; i < 40; ++i) WriteStep();
  ASSERT_TRUE(WaitFor([&] { return !rows_.empty() && rows_.back().number() == 39; }));
  const size_t before = Rows().size();
  for (uint32_t i = 0; i < ring::kLogEntries / 2 + 3; ++i) WriteStep();
  // The oldest entry is a collective, whose mark was overwritten.
  WriteMark();
  ASSERT_TRUE(WaitFor([&] { return rows_.size() > before; }));
  for (const v1::StepRow& row : Rows()) EXPECT_EQ(row.duration_ns(), 1'000'000) << row.number();
  OnLoop([&] { watch.Stop(); });
}

}  // namespace
}  // namespace lockstep::daemon
