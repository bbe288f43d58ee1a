#include "analysis/time/occupancy.h"

#include <gtest/gtest.h>

#include "analysis/time/utilization.h"

namespace lockstep::analysis {
namespace {

capture::DeviceProperties Device(int32_t major, int32_t minor, int32_t sms = 100) {
  return {.sms = sms, .compute_major = major, .compute_minor = minor};
}

capture::KernelDetail Kernel(uint16_t threads, uint16_t registers, uint32_t shared = 0,
                             uint32_t grid = 100000) {
  return {
      .grid = {grid, 1, 1}, .block = {threads, 1, 1}, .registers = registers, .static_shared_bytes = shared};
}

TEST(Occupancy, EachResourceCanLimitOccupancy) {
  EXPECT_EQ(ResidentBlocks(Kernel(256, 32), Device(7, 0)), 8) << "threads";
  EXPECT_EQ(ResidentBlocks(Kernel(32, 32), Device(7, 0)), 32) << "blocks";
  EXPECT_EQ(ResidentBlocks(Kernel(256, 128), Device(7, 0)), 2) << "registers";
  EXPECT_EQ(ResidentBlocks(Kernel(256, 32, 40 << 10), Device(7, 0)), 2) << "shared memory: 96 KiB";
  EXPECT_EQ(ResidentBlocks(Kernel(256, 32), Device(7, 5)), 4) << "Turing takes 1024 threads";
  EXPECT_EQ(ResidentBlocks(Kernel(32, 32), Device(8, 9)), 24);
  EXPECT_DOUBLE_EQ(*TheoreticalOccupancy(Kernel(256, 128), Device(7, 0)), 0.25);
}

TEST(Occupancy, AllocatesRegistersPerWarpFromAQuarterOfTheFile) {
  // 33 registers need 1056 per warp, which are allocated as 1280. This gives 12 warps per quarter, 48 in all;
  // 65536 / 1280 would be 51.
  EXPECT_EQ(ResidentBlocks(Kernel(32, 33), Device(7, 0)), 32);
  EXPECT_EQ(ResidentBlocks(Kernel(128, 33), Device(7, 0)), 12);
  EXPECT_EQ(ResidentBlocks(Kernel(96, 33), Device(7, 0)), 16);
}

TEST(Occupancy, SinceAmpereTheSystemReservesAKibibytePerBlock) {
  // Without the reserved kibibyte, 16 blocks of 10 KiB would fit into 164 KiB.
  EXPECT_EQ(ResidentBlocks(Kernel(64, 16, 10 << 10), Device(8, 0)), 14);
  EXPECT_EQ(ResidentBlocks(Kernel(64, 16, 200 << 10), Device(9, 0)), 1);
  EXPECT_EQ(ResidentBlocks(Kernel(64, 16, 200 << 10), Device(8, 0)), 0) << "does not fit";
}

TEST(Occupancy, DevicePropertiesPrecedeTheTable) {
  capture::DeviceProperties device = Device(7, 0);
  device.max_threads_per_sm = 1024;
  EXPECT_EQ(ResidentBlocks(Kernel(256, 32), device), 4);
  device.shared_bytes_per_sm = 30 << 10;
  EXPECT_EQ(ResidentBlocks(Kernel(256, 32, 16 << 10), device), 1);
}

TEST(Occupancy, ASmallGridLimitsOccupancy) {
  EXPECT_DOUBLE_EQ(*EstimatedOccupancy(Kernel(256, 32, 0, 50), Device(7, 0)), 0.5 * 256 / 2048);
  EXPECT_DOUBLE_EQ(*EstimatedOccupancy(Kernel(256, 32), Device(7, 0)), 1.0);
}

TEST(Occupancy, KeepsStatedOccupancyAndLeavesTheRestUnknown) {
  capture::KernelDetail stated = Kernel(256, 32);
  stated.occupancy_percent = 37;
  EXPECT_NEAR(*EstimatedOccupancy(stated, Device(7, 0)), 0.37, 1e-9);
  EXPECT_FALSE(EstimatedOccupancy(Kernel(256, 32), Device(0, 0)));
  EXPECT_FALSE(EstimatedOccupancy(Kernel(256, 0), Device(7, 0))) << "no registers told";
  EXPECT_FALSE(EstimatedOccupancy(Kernel(1024, 255), Device(7, 0))) << "a kernel that ran fits";
  EXPECT_FALSE(EstimatedOccupancy(Kernel(256, 32), Device(7, 0, 0))) << "how many multiprocessors?";
}

TEST(Occupancy, TheMeanOfARankIsWeightedByDuration) {
  capture::RankData rank;
  rank.properties = Device(7, 0);
  rank.kernel_details = {Kernel(256, 128), Kernel(256, 32)};
  rank.activities.push_back({.start = HostTime(0), .end = HostTime(30), .detail = 0});
  rank.activities.push_back({.start = HostTime(30), .end = HostTime(40), .detail = 1});
  EXPECT_DOUBLE_EQ(*AchievedOccupancy(rank), (30 * 0.25 + 10 * 1.0) / 40);
}

}  // namespace
}  // namespace lockstep::analysis
