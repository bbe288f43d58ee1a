#include "views/catalog/recommendations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capture/model/timeline_builder_fixture.h"
#include "views/host/frames_fixture.h"

namespace lockstep::views {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr uint64_t kGiB = 1ull << 30;

// Each rank has 80 GiB of memory.
capture::Capture Job(int ranks) {
  capture::TimelineBuilder t;
  for (int rank = 0; rank < ranks; ++rank) t.Rank(rank).Step(1, 0, 100).Kernel("gemm", 10, 50);
  capture::Capture capture = t.Build();
  for (capture::RankData& rank : capture.ranks) rank.properties.memory_bytes = 80 * kGiB;
  return capture;
}

void Hold(capture::Capture& capture, uint32_t entry, double gib, int32_t device = 0) {
  const auto bytes = static_cast<int64_t>(gib * kGiB);
  views::FramesBuilder(capture)
      .Allocation(5, 4096, device)
      .AllocatorTotals(bytes / 2, bytes)
      .Allocation(6, -4096, device)
      .AllocatorTotals(0, 0)
      .To(entry);
}

std::vector<std::string> Of(const capture::Capture& capture) { return RecommendationsOf(capture, {}, {}); }

TEST(RecommendationsTest, WarnsOfMemoryUseAboveNineTenths) {
  capture::Capture capture = Job(3);
  Hold(capture, 0, 72);
  EXPECT_THAT(Of(capture), IsEmpty()) << "nine tenths, no more";
  Hold(capture, 1, 76);
  EXPECT_THAT(
      Of(capture),
      ElementsAre(StartsWith(
          "PyTorch held 95% of the memory of rank 1's GPU 0 (76.0 of 80.0 GiB): smaller microbatches")));
  Hold(capture, 2, 74);
  EXPECT_THAT(Of(capture), ElementsAre(::testing::EndsWith("; 1 other GPU is also above 90%")));
  // The size of the memory is unknown, or the allocation is on another device.
  capture.ranks[1].properties.memory_bytes = 0;
  Hold(capture, 2, 76, 5);
  EXPECT_THAT(Of(capture), IsEmpty());
}

TEST(RecommendationsTest, RecommendsAgainstDataParallelOnSeveralGpus) {
  capture::Capture capture = Job(2);
  views::FramesBuilder(capture).Frame("DataParallel.forward", 0, 50, capture::FrameKind::kAnnotation).To(0);
  EXPECT_THAT(Of(capture), IsEmpty()) << "on one GPU it is harmless";
  // Both devices belong to one process.
  capture.ranks[1].rank = capture.ranks[0].rank;
  capture.ranks[1].device = DeviceId(1);
  capture.ranks[1].frames = capture.ranks[0].frames;
  EXPECT_THAT(Of(capture),
              ElementsAre(StartsWith("rank 0 drives 2 GPUs from one process by torch.nn.DataParallel")));
  views::FramesBuilder(capture)
      .Frame("DistributedDataParallel.forward", 0, 50, capture::FrameKind::kAnnotation)
      .To(0);
  capture.ranks[1].frames = capture.ranks[0].frames;
  EXPECT_THAT(Of(capture), IsEmpty()) << "that is what it should be";
}

}  // namespace
}  // namespace lockstep::views
