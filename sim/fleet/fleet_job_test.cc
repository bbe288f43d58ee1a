#include "sim/fleet/fleet_job.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::sim {
namespace {

FleetJobShape Shape(uint32_t ranks, uint32_t rows, std::optional<uint32_t> slow_rank) {
  return {.ranks = ranks,
          .rows = rows,
          .slow_rank = slow_rank,
          .slow_by_percent = 20,
          .window = Nanos::Seconds(1)};
}

// Returns the begin of a rank's first all-reduce of a step.
VirtualTime Arrival(const FleetJob& job, uint32_t step, uint32_t rank) {
  VirtualTime at = job.StepBegin(step, rank) + FleetJob::kCall + FleetJob::kLatency;
  for (uint32_t i = 0; i < FleetJob::kKernels; ++i) at += job.KernelLength(rank, step, i) + FleetJob::kGap;
  return at;
}

TEST(FleetJobTest, HasTheWholeStepsOfTheRequestedRows) {
  EXPECT_EQ(FleetJob(Shape(4, 3000, 1)).steps(), 3000 / FleetJob::kRowsPerStep);
}

TEST(FleetJobTest, EveryStepLiesInsideTheWindowAndBehindTheOneBefore) {
  const FleetJob job(Shape(8, 20'000, 3));
  VirtualTime last;
  for (uint32_t step = 0; step < job.steps(); ++step) {
    for (uint32_t rank = 0; rank < 8; ++rank) EXPECT_GE(job.StepBegin(step, rank), last);
    last = job.StepEnd(step);
  }
  EXPECT_LT(last, VirtualTime() + Nanos::Seconds(1));
  EXPECT_GT(last, VirtualTime() + Nanos::Millis(950)) << "the steps fill the window";
}

TEST(FleetJobTest, AnAllReduceEndsAfterTheLastRankHasBegunIt) {
  for (const std::optional<uint32_t> slow : {std::optional<uint32_t>(), std::optional<uint32_t>(5)}) {
    const FleetJob job(Shape(8, 3000, slow));
    for (uint32_t step = 0; step < job.steps(); ++step) {
      VirtualTime latest;
      for (uint32_t rank = 0; rank < 8; ++rank) latest = std::max(latest, Arrival(job, step, rank));
      const Nanos transfer = job.LayerEnd(step, 0) - latest;
      EXPECT_GT(transfer, Nanos());
      EXPECT_LT(transfer, Nanos::Millis(2));
    }
  }
}

TEST(FleetJobTest, OnlyTheSlowRankHasLongerKernels) {
  const FleetJob job(Shape(8, 3000, 5));
  const auto mean_of_rank = [&](uint32_t rank) {
    Nanos sum;
    for (uint32_t step = 0; step < job.steps(); ++step) {
      for (uint32_t i = 0; i < FleetJob::kLayers * FleetJob::kKernels; ++i)
        sum += job.KernelLength(rank, step, i);
    }
    return static_cast<double>(sum.ns());
  };
  const double healthy = mean_of_rank(0);
  EXPECT_NEAR(mean_of_rank(7) / healthy, 1.0, 0.005);
  EXPECT_NEAR(mean_of_rank(5) / healthy, 1.2, 0.005);
  EXPECT_NE(job.KernelLength(0, 0, 0), job.KernelLength(1, 0, 0)) << "each rank has its own noise";
}

TEST(FleetJobTest, AShortWindowHasFewerStepsAndNoEmptyKernel) {
  FleetJobShape shape = Shape(2, 1'000'000, 1);
  shape.slow_by_percent = 1000;
  for (const Nanos window : {Nanos::Millis(2), Nanos::Millis(100)}) {
    shape.window = window;
    const FleetJob job(shape);
    EXPECT_GE(job.steps(), 1u);
    EXPECT_LE(job.steps(), static_cast<uint32_t>(window.ns() / FleetJob::kShortestStep.ns()));
    EXPECT_GT(job.KernelLength(0, 0, 0), Nanos());
    EXPECT_LT(job.StepEnd(job.steps() - 1), VirtualTime() + window);
  }
}

}  // namespace
}  // namespace lockstep::sim
