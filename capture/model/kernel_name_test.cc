#include "capture/model/kernel_name.h"

#include <gtest/gtest.h>

#include "capture/model/collective_op.h"

namespace lockstep::capture {
namespace {

TEST(KernelName, DemanglesLinkerNames) {
  EXPECT_EQ(DemangledKernelName("_Z9vectorAddPKfS0_Pfi"),
            "vectorAdd(float const*, float const*, float*, int)");
  const std::string nccl =
      DemangledKernelName("_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE");
  EXPECT_EQ(nccl, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)");
  EXPECT_EQ(ClassifyKernelName(nccl).op, CollectiveOp::kAllReduce);
}

TEST(KernelName, KeepsOtherNames) {
  for (const char* name :
       {"", "gemm", "_Z", "_Znonsense", "_ZN", "ampere_sgemm_128x64_tn", "_Z9vectorAddPKfS0_Pfi trailing"}) {
    EXPECT_EQ(DemangledKernelName(name), "") << name;
  }
}

TEST(KernelName, GivesUpOnANameThatExpandsToGigabytes) {
  // Each level is a pair of the previous level with itself.
  std::string name = "_Z1fSt4pairIiiE";
  const std::string digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  for (int level = 0; level < 30; ++level) {
    const std::string before = {'S', digits[level], '_'};
    name += "S_I" + before + before + "E";
  }
  EXPECT_EQ(DemangledKernelName(name), "");
  EXPECT_LE(DemangledKernelName("_Z1f" + std::string(10000, 'P') + "i").size(), 16384u);
}

}  // namespace
}  // namespace lockstep::capture
