#include "sim/nccl/reduction.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

namespace lockstep::sim {
namespace {

using namespace foreign::ncclapi;

template <typename T>
T Two(T a, T b, ncclDataType_t type, ncclRedOp_t op) {
  T out{};
  ReduceInto(&out, {&a, &b}, 1, type, op);
  return out;
}

TEST(Reduction, OperationsComputeTheirResults) {
  EXPECT_EQ(Two<int32_t>(-3, 5, ncclInt32, ncclSum), 2);
  EXPECT_EQ(Two<int32_t>(-3, 5, ncclInt32, ncclProd), -15);
  EXPECT_EQ(Two<uint8_t>(3, 250, ncclUint8, ncclMax), 250);
  EXPECT_EQ(Two<int8_t>(3, -6, ncclInt8, ncclMin), -6);
  EXPECT_EQ(Two<double>(1, 2, ncclFloat64, ncclAvg), 1.5);
  EXPECT_EQ(Two<uint64_t>(1ull << 62, 1, ncclUint64, ncclSum), (1ull << 62) + 1);
}

TEST(Reduction, MovesButDoesNotReduceSmallFloats) {
  for (const ncclDataType_t type : {ncclFloat16, ncclBfloat16, ncclFloat8e4m3, ncclFloat8e5m2}) {
    EXPECT_FALSE(CanReduce(type)) << TypeName(type);
  }
  for (const ncclDataType_t type : {ncclInt8, ncclUint64, ncclFloat32, ncclFloat64}) {
    EXPECT_TRUE(CanReduce(type)) << TypeName(type);
  }
}

TEST(Reduction, OnlyKnownTypesHaveSizeAndName) {
  for (int t = ncclInt8; t <= ncclFloat8e5m2; ++t) {
    const auto type = static_cast<ncclDataType_t>(t);
    EXPECT_GT(ElementBytes(type), 0u);
    EXPECT_EQ(std::strncmp(TypeName(type), "nccl", 4), 0);
  }
  EXPECT_EQ(ElementBytes(static_cast<ncclDataType_t>(12)), 0u);
  EXPECT_EQ(ElementBytes(static_cast<ncclDataType_t>(-1)), 0u);
}

}  // namespace
}  // namespace lockstep::sim
