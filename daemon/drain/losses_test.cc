#include "daemon/drain/losses.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

using columns::Kind;

constexpr HostInterval kWindow = {HostTime(100), HostTime(200)};

TEST(LossesTest, EachReasonAndKindIsOneLoss) {
  ring::LossCounts counts;
  counts.records[static_cast<size_t>(ring::LossReason::kRingFull)][static_cast<size_t>(Kind::kKernel)] = 7;
  counts.records[static_cast<size_t>(ring::LossReason::kCuptiDropped)][0] = 2;
  v1::CaptureEnd end;
  AddLosses(counts, Nanos::Seconds(1), kWindow, end);
  ASSERT_EQ(end.losses_size(), 2);
  EXPECT_EQ(end.losses(0).stage(), "ring");
  EXPECT_EQ(end.losses(0).records(), 7u);
  EXPECT_EQ(end.losses(0).from_ns(), 100);
  EXPECT_EQ(end.losses(1).stage(), "cupti");
}

// The counters are in memory that the client can write.
TEST(LossesTest, ACountThatNoClientCouldWriteIsCut) {
  ring::LossCounts counts;
  for (auto& reason : counts.records) {
    for (uint64_t& records : reason) records = std::numeric_limits<uint64_t>::max();
  }
  v1::CaptureEnd end;
  AddLosses(counts, Nanos::Seconds(2), kWindow, end);
  ASSERT_GT(end.losses_size(), 0);
  uint64_t sum = 0;
  for (const v1::Loss& loss : end.losses()) {
    EXPECT_EQ(loss.records(), 2'000'000'000u);
    EXPECT_THAT(loss.reason(),
                testing::HasSubstr("the process states 18446744073709551615, more than it could"));
    ASSERT_LT(sum, sum + loss.records());
    sum += loss.records();
  }
}

}  // namespace
}  // namespace lockstep::daemon
