#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capture/model/capture.h"
#include "capture/model/row_limit.h"

namespace lockstep::capture {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kAllReduce =
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
constexpr const char* kSendRecv = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";

class FinishTest : public ::testing::Test {
 protected:
  RankData& AddRank(int32_t rank) {
    capture_.ranks.emplace_back();
    capture_.ranks.back().rank = RankId(rank);
    return capture_.ranks.back();
  }
  DeviceActivity Kernel(int64_t start, int64_t end, const char* name, uint32_t correlation = 0) {
    return {.start = HostTime(start),
            .end = HostTime(end),
            .name = capture_.strings.Intern(name),
            .correlation = CorrelationId(correlation)};
  }
  HostRange Range(int64_t start, int64_t end, const char* name, int64_t thread = 1) {
    return {.start = HostTime(start),
            .end = HostTime(end),
            .name = capture_.strings.Intern(name),
            .thread = ThreadId(thread)};
  }
  ApiCall Launch(int64_t start, uint32_t correlation, int64_t thread = 1) {
    return {.start = HostTime(start),
            .end = HostTime(start + 1),
            .correlation = CorrelationId(correlation),
            .thread = ThreadId(thread)};
  }

  Capture capture_;
};

TEST_F(FinishTest, SortsRowsAndKeepsTheirReferences) {
  RankData& r = AddRank(0);
  r.activities = {Kernel(300, 400, kAllReduce), Kernel(100, 200, "gemm"), Kernel(200, 250, kAllReduce)};
  r.activities[0].collective = 0;
  r.activities[2].collective = 1;
  r.collectives = {{.activity = 0, .op = CollectiveOp::kAllReduce, .bytes = 30},
                   {.activity = 2, .op = CollectiveOp::kAllReduce, .bytes = 20}};
  Finish(capture_);
  ASSERT_EQ(r.activities.size(), 3u);
  EXPECT_EQ(r.activities[0].start, HostTime(100));
  EXPECT_EQ(r.activities[2].start, HostTime(300));
  ASSERT_EQ(r.collectives.size(), 2u);
  EXPECT_EQ(r.collectives[0].activity, 1u);
  EXPECT_EQ(r.collectives[0].bytes, 20);
  EXPECT_EQ(r.activities[1].collective, 0u);
  EXPECT_EQ(r.collectives[1].activity, 2u);
  EXPECT_EQ(r.activities[2].collective, 1u);
  EXPECT_FALSE(r.activities[0].communication);
}

TEST_F(FinishTest, KernelsWithEqualDetailsShareARow) {
  RankData& r = AddRank(0);
  r.activities = {Kernel(100, 200, "gemm"), Kernel(200, 250, "gemm"), Kernel(300, 400, "gemm"),
                  Kernel(400, 500, "gemm")};
  r.kernel_details = {{.grid = {7, 1, 1}}, {.grid = {9, 1, 1}}, {.grid = {7, 1, 1}}};
  for (uint32_t i = 0; i < 3; ++i) r.activities[i].detail = i;
  Finish(capture_);
  ASSERT_EQ(r.kernel_details.size(), 2u);
  for (uint32_t i = 0; i < 3; ++i)
    EXPECT_EQ(r.kernel_details[r.activities[i].detail].grid[0], i == 1 ? 9u : 7u);
  EXPECT_EQ(r.activities[3].detail, kNone);
}

TEST_F(FinishTest, RowsAreCountedUpToTheLimit) {
  AddRank(0).activities = {Kernel(100, 200, "gemm")};
  AddRank(1).api_calls = {Launch(100, 1), Launch(110, 2)};
  EXPECT_EQ(CountAnalysedRows(capture_), 3u);
  EXPECT_TRUE(CheckAnalysedRows(kMostAnalysedRows).ok());
  const std::string refused(CheckAnalysedRows(kMostAnalysedRows + 1).message());
  EXPECT_THAT(refused, HasSubstr("1073741825 kernels"));
  EXPECT_THAT(refused, HasSubstr("fewer ranks"));
}

TEST_F(FinishTest, FinishIsIdempotent) {
  RankData& r = AddRank(1);
  r.activities = {Kernel(300, 400, kAllReduce), Kernel(100, 200, kSendRecv, 7)};
  r.ranges = {Range(10, 90, "nccl:all_to_all"), Range(0, 500, "ProfilerStep#3")};
  r.api_calls = {Launch(20, 7)};
  Finish(capture_);
  const size_t groups = capture_.groups.size();
  const auto first = r.collectives;
  Finish(capture_);
  EXPECT_EQ(capture_.groups.size(), groups);
  ASSERT_EQ(r.collectives.size(), first.size());
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(r.collectives[i].activity, first[i].activity);
    EXPECT_EQ(r.collectives[i].op, first[i].op);
    EXPECT_EQ(r.collectives[i].group, first[i].group);
  }
  EXPECT_THAT(capture_.missing_ranks, ElementsAre(RankId(0)));
}

TEST_F(FinishTest, MetadataMakesAKernelCommunicationUnderAnyName) {
  RankData& r = AddRank(0);
  r.activities = {Kernel(0, 10, "my_fused_thing")};
  r.collectives = {{.activity = 0, .op = CollectiveOp::kAllGather}};
  Finish(capture_);
  EXPECT_TRUE(r.activities[0].communication);
  EXPECT_EQ(r.activities[0].collective, 0u);
  EXPECT_EQ(r.collectives[0].op, CollectiveOp::kAllGather);
}

TEST_F(FinishTest, RecognisesMangledKernelNames) {
  RankData& r = AddRank(0);
  r.activities = {
      Kernel(0, 10, "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE"),
      Kernel(20, 30, kAllReduce)};
  Finish(capture_);
  EXPECT_TRUE(r.activities[0].communication);
  EXPECT_EQ(r.activities[0].name, r.activities[1].name);
}

TEST_F(FinishTest, NamesUnnamedCopiesByTheirKind) {
  RankData& r = AddRank(0);
  r.copy_details = {{.copy_kind = 1, .src_kind = 2, .dst_kind = 3}, {.dst_kind = 3}};
  r.activities = {Kernel(0, 10, ""), Kernel(20, 30, ""), Kernel(40, 50, "Memcpy of the source's own")};
  for (size_t i = 0; i < 3; ++i) {
    r.activities[i].kind = i == 1 ? ActivityKind::kMemset : ActivityKind::kMemcpy;
    r.activities[i].detail = i % 2;
  }
  Finish(capture_);
  EXPECT_EQ(capture_.Text(r.activities[0].name), "Memcpy HtoD (Pinned -> Device)");
  EXPECT_EQ(capture_.Text(r.activities[1].name), "Memset (Device)");
  EXPECT_EQ(capture_.Text(r.activities[2].name), "Memcpy of the source's own");
}

TEST_F(FinishTest, ACopyNamedLikeACollectiveRemainsACopy) {
  RankData& r = AddRank(0);
  r.activities = {Kernel(0, 10, kAllReduce)};
  r.activities[0].kind = ActivityKind::kMemcpy;
  Finish(capture_);
  EXPECT_FALSE(r.activities[0].communication);
  EXPECT_TRUE(r.collectives.empty());
}

TEST_F(FinishTest, ARangeAroundTheLaunchNamesAnAllToAll) {
  RankData& r = AddRank(0);
  r.activities = {Kernel(1000, 1100, kSendRecv, 7), Kernel(1200, 1300, kSendRecv, 8),
                  Kernel(1400, 1500, kSendRecv, 9)};
  r.api_calls = {Launch(20, 7), Launch(200, 8), Launch(30, 9, 2)};
  r.ranges = {Range(0, 500, "forward"), Range(10, 90, "nccl:all_to_all"), Range(12, 18, "nccl:all_reduce")};
  Finish(capture_);
  EXPECT_EQ(r.collectives[0].op, CollectiveOp::kAllToAll);
  EXPECT_EQ(r.collectives[1].op, CollectiveOp::kSendReceive) << "launched after the range";
  EXPECT_EQ(r.collectives[2].op, CollectiveOp::kSendReceive) << "launched by another thread";
}

TEST_F(FinishTest, DistinguishesStepRangesFromOtherRanges) {
  RankData& r = AddRank(0);
  r.ranges = {Range(0, 1, "ProfilerStep#12"), Range(1, 2, "step 3"),
              Range(2, 3, "Iteration_44"),    Range(3, 4, "step"),
              Range(4, 5, "stepping 3"),      Range(5, 6, "forward")};
  Finish(capture_);
  std::vector<bool> steps;
  for (const HostRange& range : r.ranges) steps.push_back(range.kind == RangeKind::kStep);
  EXPECT_THAT(steps, ElementsAre(true, true, true, false, false, false));
}

TEST_F(FinishTest, DerivesWorldSizeAndMissingRanks) {
  AddRank(2);
  AddRank(0);
  capture_.groups.push_back({.key = "tp", .members = {RankId(0), RankId(3)}, .size = 2});
  Finish(capture_);
  EXPECT_EQ(capture_.world_size, 4);
  EXPECT_THAT(capture_.missing_ranks, ElementsAre(RankId(1), RankId(3)));
  EXPECT_EQ(capture_.ranks[0].rank, RankId(0));
}

TEST_F(FinishTest, CollectivesWithoutACommunicatorUseTheWholeJob) {
  RankData& r = AddRank(0);
  r.activities = {Kernel(0, 10, kAllReduce)};
  capture_.world_size = 2;
  Finish(capture_);
  ASSERT_EQ(capture_.groups.size(), 1u);
  EXPECT_THAT(capture_.groups[0].members, ElementsAre(RankId(0), RankId(1)));
  EXPECT_EQ(r.collectives[0].group, 0u);
}

TEST_F(FinishTest, IgnoresAnImpossibleWorldSize) {
  AddRank(0);
  capture_.world_size = 2000000000;
  Finish(capture_);
  EXPECT_EQ(capture_.world_size, 1);
  EXPECT_TRUE(capture_.missing_ranks.empty());
  EXPECT_FALSE(capture_.notes.empty());
}

TEST_F(FinishTest, IgnoresReferencesOutOfRange) {
  RankData& r = AddRank(0);
  r.activities = {Kernel(0, 10, "gemm")};
  r.activities[0].collective = 77;
  r.collectives = {{.activity = 99}};
  Finish(capture_);
  EXPECT_EQ(r.activities.size(), 1u);
}

}  // namespace
}  // namespace lockstep::capture
