// Tests CUPTI's buffers in a capture: late or missing records, records that CUPTI drops because it has no
// buffer, and buffers that several threads complete at once. The client counts what is lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "client/agent_fixture.h"

namespace lockstep::client {
namespace {

namespace cupti = foreign::cupti;
using ring::ClientState;
using ring::LossReason;
using ring::RecordKind;

TEST_F(AgentTest, WaitsForARecordThatCompletesAfterTheWindow) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  const int64_t t0 = StartWindow(1, Nanos::Millis(50));
  cupti_.Withhold();
  cupti_.Emit(MakeKernel(t0 + 10, t0 + 700'000'000, 5));
  std::thread gpu([this] {
    kSystemTiming.pause(Nanos::Millis(700));
    cupti_.Complete();
  });
  const auto done = daemon_.WaitForState();
  gpu.join();
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->state, ClientState::kDone);
  EXPECT_EQ(daemon_.end->DrainOnly<ring::KernelRecord>(RecordKind::kKernel).size(), 1u);
}

TEST_F(AgentTest, FlushesAndCountsARecordThatNeverCompletes) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  const int64_t t0 = StartWindow(1, Nanos::Millis(50));
  cupti_.Withhold();
  cupti_.Emit(MakeKernel(t0 + 10, 0, 5));
  const auto since = kSystemTiming.monotonic();
  ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kDone);
  EXPECT_LT((kSystemTiming.monotonic() - since).seconds(), 3.5);
  EXPECT_EQ(daemon_.end->Lost(LossReason::kBadStamp, RecordKind::kKernel), 1u);
}

// CUPTI requests buffers before it has records, and may keep them for ever (pytorch#195471).
TEST_F(AgentTest, AnEmptyBufferThatCuptiKeepsCostsNeitherTimeNorALoss) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  size_t bytes = 0;
  uint8_t* kept = cupti_.Request(&bytes);
  ASSERT_NE(kept, nullptr);
  int64_t t0 = StartWindow(1, Nanos::Millis(50));
  cupti_.Emit(MakeKernel(t0 + 10, t0 + 20, 5));
  const auto since = kSystemTiming.monotonic();
  auto done = daemon_.WaitForState();
  ASSERT_EQ(done->state, ClientState::kDone);
  EXPECT_LT((kSystemTiming.monotonic() - since).seconds(), 1.5);
  EXPECT_STREQ(done->text, "");
  EXPECT_EQ(daemon_.end->Lost(LossReason::kContested, RecordKind::kPad), 0u);
  EXPECT_EQ(daemon_.end->DrainOnly<ring::KernelRecord>(RecordKind::kKernel).size(), 1u);

  // A later capture receives it.
  ArmAndExpectArmed(2);
  t0 = StartWindow(2, Nanos::Millis(200));
  const auto kernel = MakeKernel(t0 + 10, t0 + 20, 6);
  std::memcpy(kept, &kernel, sizeof kernel);
  cupti_.ReturnBuffer(kept, bytes, sizeof kernel);
  done = daemon_.WaitForState();
  ASSERT_EQ(done->state, ClientState::kDone);
  EXPECT_EQ(daemon_.end->DrainOnly<ring::KernelRecord>(RecordKind::kKernel).size(), 1u);
}

TEST_F(AgentTest, ABufferWithRecordsThatCuptiKeepsIsALoss) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  size_t bytes = 0;
  uint8_t* kept = cupti_.Request(&bytes);
  const int64_t t0 = StartWindow(1, Nanos::Millis(50));
  const auto kernel = MakeKernel(t0 + 10, t0 + 20, 6);
  std::memcpy(kept, &kernel, sizeof kernel);
  const auto done = daemon_.WaitForState();
  ASSERT_EQ(done->state, ClientState::kDone);
  EXPECT_EQ(daemon_.end->Lost(LossReason::kContested, RecordKind::kPad), 1u);
  EXPECT_EQ(done->cut, ring::Cut::kTaken);
}

TEST_F(AgentTest, CountsOnlyCuptisDropsInTheWindow) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  cupti_.Locked([](FakeCupti& f) { f.dropped = 1000; });
  const int64_t t0 = StartWindow(1, Nanos::Millis(150));
  kSystemTiming.pause(Nanos::Millis(80));
  cupti_.Locked([](FakeCupti& f) { f.dropped = 7; });
  cupti_.Emit(MakeKernel(t0 + 10, t0 + 11, 1));
  ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kDone);
  EXPECT_EQ(daemon_.end->Lost(LossReason::kCuptiDropped, RecordKind::kPad), 7u);
}

TEST_F(AgentTest, GivesZeroedBuffersOfAnotherSizeOnRequest) {
  capture_->cupti().SetBuffers({.bytes = 256u << 10, .zeros = CuptiBufferSettings::Zeros::kByUs});
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  EXPECT_EQ(cupti_.Locked([](FakeCupti& f) { return f.zeroed_out; }), 1);
  const int64_t t0 = StartWindow(1, Nanos::Millis(200));
  const auto kernel = MakeKernel(t0 + 10, t0 + 20, 6);
  for (int i = 0; i < 2; ++i) {  // the same buffer twice
    size_t bytes = 0;
    uint8_t* buffer = cupti_.Request(&bytes);
    ASSERT_NE(buffer, nullptr);
    ASSERT_EQ(bytes, 256u << 10);
    EXPECT_TRUE(std::all_of(buffer, buffer + bytes, [](uint8_t b) { return b == 0; })) << i;
    std::memcpy(buffer, &kernel, sizeof kernel);
    cupti_.ReturnBuffer(buffer, bytes, sizeof kernel);
  }
  ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kDone);
  EXPECT_EQ(daemon_.end->DrainOnly<ring::KernelRecord>(RecordKind::kKernel).size(), 2u);
  EXPECT_EQ(cupti_.Locked([](FakeCupti& f) { return f.zeroed_out; }), 0) << "restored for other tools";
}

TEST_F(AgentTest, CountsRecordsThatExceedTheBuffers) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  const int64_t t0 = StartWindow(1, Nanos::Millis(300));
  std::vector<std::pair<uint8_t*, size_t>> taken;
  for (size_t bytes = 0;;) {
    uint8_t* buffer = cupti_.Request(&bytes);
    if (buffer == nullptr) break;
    taken.emplace_back(buffer, bytes);
  }
  EXPECT_EQ(taken.size(), kCuptiBuffers);
  EXPECT_FALSE(cupti_.Emit(MakeKernel(t0, t0 + 1, 1)));
  for (auto [buffer, bytes] : taken) cupti_.ReturnBuffer(buffer, bytes, 0);
  EXPECT_TRUE(cupti_.Emit(MakeKernel(t0 + 1, t0 + 2, 2)));
  ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kDone);
  EXPECT_EQ(daemon_.end->Lost(LossReason::kCuptiDropped, RecordKind::kPad), 1u);
}

TEST_F(AgentTest, NeverGivesAnOldCuptiANullBuffer) {
  cupti_.version = 24;  // CUDA 12.6
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  const int64_t t0 = StartWindow(1, Nanos::Millis(200));
  std::vector<std::pair<uint8_t*, size_t>> taken;
  for (size_t i = 0; i < kCuptiBuffers + 3; ++i) {
    size_t bytes = 0;
    uint8_t* buffer = cupti_.Request(&bytes);
    ASSERT_NE(buffer, nullptr);
    ASSERT_EQ(bytes, kCuptiBufferBytes);
    taken.emplace_back(buffer, bytes);
  }
  // The shared emergency buffer has two records. They are not trusted, only counted.
  const auto a = MakeApi(t0 + 1, t0 + 2, 1);
  std::memcpy(taken.back().first, &a, sizeof a);
  std::memcpy(taken.back().first + sizeof a, &a, sizeof a);
  cupti_.ReturnBuffer(taken.back().first, kCuptiBufferBytes, 2 * sizeof a);
  for (size_t i = 0; i < kCuptiBuffers; ++i) cupti_.ReturnBuffer(taken[i].first, taken[i].second, 0);
  ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kDone);
  EXPECT_TRUE(daemon_.end->DrainOnly<ring::ApiRecord>(RecordKind::kApi).empty());
  EXPECT_EQ(daemon_.end->Lost(LossReason::kCuptiDropped, RecordKind::kPad), 2u);
}

TEST_F(AgentTest, LosesNothingIfThreadsCompleteBuffersConcurrently) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  const int64_t t0 = StartWindow(1, Nanos::Millis(600));
  constexpr uint32_t kThreads = 4;
  constexpr uint32_t kRounds = 50;
  constexpr uint32_t kPerBuffer = 20;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t round = 0; round < kRounds; ++round) {
        size_t bytes = 0;
        uint8_t* buffer = cupti_.Request(&bytes);
        // All buffers are lent while the converting thread does not run. CUPTI would count a drop here; the
        // test tries again.
        for (; buffer == nullptr; buffer = cupti_.Request(&bytes)) std::this_thread::yield();
        for (uint32_t i = 0; i < kPerBuffer; ++i) {
          const auto kernel = MakeKernel(t0 + 1, t0 + 2, (t * kRounds + round) * kPerBuffer + i);
          std::memcpy(buffer + i * sizeof kernel, &kernel, sizeof kernel);
        }
        cupti_.ReturnBuffer(buffer, bytes, kPerBuffer * sizeof(cupti::Kernel10));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kDone);
  std::set<uint32_t> seen;
  for (const auto& k : daemon_.end->DrainOnly<ring::KernelRecord>(RecordKind::kKernel))
    seen.insert(k.correlation);
  EXPECT_EQ(seen.size(), kThreads * kRounds * kPerBuffer);
  EXPECT_EQ(daemon_.end->LostInAll(), 0u);
}

}  // namespace
}  // namespace lockstep::client
