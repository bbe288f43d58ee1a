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

TEST(Reduction, OperationsAreWhatTheyAreCalled) {
  EXPECT_EQ(Two<int32_t>(-3, 5, ncclInt32, ncclSum), 2);
  EXPECT_EQ(Two<int32_t>(-3, 5, ncclInt32, ncclProd), -15);
  EXPECT_EQ(Two<uint8_t>(3, 250, ncclUint8, ncclMax), 250);
  EXPECT_EQ(Two<int8_t>(3, -6, ncclInt8, ncclMin), -6);
  EXPECT_EQ(Two<double>(1, 2, ncclFloat64, ncclAvg), 1.5);
  EXPECT_EQ(Two<uint64_t>(1ull << 62, 1, ncclUint64, ncclSum), (1ull << 62) + 1);
}

TEST(Reduction, SixteenBitFloatsAreRoundedToTheNearest) {
  // 1.5 + 2.25, the largest half, too much of it, and the smallest there is.
  EXPECT_EQ(Two<uint16_t>(0x3E00, 0x4080, ncclFloat16, ncclSum), 0x4380);
  EXPECT_EQ(Two<uint16_t>(0x7BFF, 0, ncclFloat16, ncclSum), 0x7BFF);
  EXPECT_EQ(Two<uint16_t>(0x7BFF, 0x7BFF, ncclFloat16, ncclSum), 0x7C00);
  EXPECT_EQ(Two<uint16_t>(0x0001, 0x0001, ncclFloat16, ncclSum), 0x0002);
  EXPECT_EQ(Two<uint16_t>(0x03FF, 0x0001, ncclFloat16, ncclSum), 0x0400) << "from subnormal to normal";
  EXPECT_EQ(Two<uint16_t>(0xC000, 0x3C00, ncclFloat16, ncclSum), 0xBC00) << "-2 + 1";
  EXPECT_EQ(Two<uint16_t>(0x3F80, 0x4000, ncclBfloat16, ncclSum), 0x4040) << "1 + 2";
  EXPECT_EQ(Two<uint16_t>(0x4380, 0x3F80, ncclBfloat16, ncclSum), 0x4380)
      << "256 + 1 is between 256 and 258, and goes to the even";
}

TEST(Reduction, EveryTypeHasASizeAndANameAndNoOtherNumberHas) {
  for (int t = ncclInt8; t <= ncclFloat8e5m2; ++t) {
    const auto type = static_cast<ncclDataType_t>(t);
    EXPECT_GT(ElementBytes(type), 0u);
    EXPECT_EQ(std::strncmp(TypeName(type), "nccl", 4), 0);
  }
  EXPECT_EQ(ElementBytes(static_cast<ncclDataType_t>(12)), 0u);
  EXPECT_EQ(ElementBytes(static_cast<ncclDataType_t>(-1)), 0u);
  EXPECT_FALSE(CanReduce(ncclFloat8e4m3));
}

}  // namespace
}  // namespace lockstep::sim
