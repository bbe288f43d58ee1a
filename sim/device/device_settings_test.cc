#include "sim/device/device_settings.h"

#include <gtest/gtest.h>

#include <map>

#include "sim/device/kernel_model.h"

namespace lockstep::sim {
namespace {

using Variables = std::map<std::string, std::string>;

DeviceSettings Read(const Variables& variables, std::vector<std::string>* error) {
  return DeviceSettings::Read(
      [&](const char* name) -> const char* {
        const auto it = variables.find(name);
        return it == variables.end() ? nullptr : it->second.c_str();
      },
      error);
}

TEST(DeviceSettings, IgnoresSettingsOfOtherRanks) {
  std::vector<std::string> error;
  const Variables all = {
      {"SIMGPU_SLOW_RANK", "3:1.4"}, {"SIMGPU_SLOW_COPIES", "*:2"}, {"SIMGPU_STALL", "3:100:20"}};
  Variables third = all, first = all;
  third["OMPI_COMM_WORLD_RANK"] = "3";
  first["RANK"] = "0";
  const DeviceSettings ours = Read(third, &error);
  EXPECT_EQ(ours.rank, 3);
  EXPECT_DOUBLE_EQ(ours.kernel_factor, 1.4);
  EXPECT_DOUBLE_EQ(ours.copy_factor, 2);
  EXPECT_EQ(ours.stall_launch, 100u);
  EXPECT_EQ(ours.stall_ns, 20'000'000);
  const DeviceSettings others = Read(first, &error);
  EXPECT_DOUBLE_EQ(others.kernel_factor, 1);
  EXPECT_DOUBLE_EQ(others.copy_factor, 2);
  EXPECT_EQ(others.stall_launch, 0u);
  EXPECT_TRUE(error.empty());
}

TEST(DeviceSettings, AllRanksKnowTheNetworksCut) {
  std::vector<std::string> error;
  const DeviceSettings settings = Read({{"SIMGPU_NETWORK_CUT", "1:2:21"}, {"RANK", "3"}}, &error);
  EXPECT_EQ(settings.cut.from, 1);
  EXPECT_EQ(settings.cut.to, 2);
  EXPECT_EQ(settings.cut.operation, 21u);
  EXPECT_TRUE(error.empty());
  EXPECT_EQ(Read({{"SIMGPU_NETWORK_CUT", "1:2"}}, &error).cut.operation, 0u);
  EXPECT_EQ(error.size(), 1u);
}

TEST(DeviceSettings, ReportsAndIgnoresInvalidValues) {
  std::vector<std::string> error;
  const DeviceSettings settings = Read({{"SIMGPU_SLOW_RANK", "three"},
                                        {"SIMGPU_DEVICES", "0"},
                                        {"SIMGPU_KERNELS", "gemm*=2ms,what,x=5,y=3us~2%"}},
                                       &error);
  EXPECT_EQ(error.size(), 4u);
  EXPECT_EQ(settings.devices, DeviceSettings{}.devices);
  ASSERT_EQ(settings.kernels.size(), 2u);
  EXPECT_EQ(settings.kernels[0].mean_ns, 2'000'000);
  EXPECT_DOUBLE_EQ(settings.kernels[1].deviation, 0.02);
}

TEST(KernelModel, TheFirstMatchingRuleApplies) {
  std::vector<std::string> error;
  const DeviceSettings settings =
      Read({{"SIMGPU_KERNELS", "train_matmul*=800us,train_*=50us"}, {"SIMGPU_SLOW_RANK", "0:1.5"}}, &error);
  KernelModel model(settings);
  EXPECT_EQ(model.KernelNs("_Z12train_matmulPKfS0_Pfi", {}), 1'200'000) << "by its demangled name";
  EXPECT_EQ(model.KernelNs("train_other", {}), 75'000);
  KernelShape small, large;
  large.grid[0] = 100'000;
  large.block[0] = 256;
  EXPECT_GT(model.KernelNs("unknown", large), 10 * model.KernelNs("unknown", small)) << "by waves of blocks";
}

TEST(KernelModel, JitterIsTheSameForTheSameSeedAndRank) {
  std::vector<std::string> error;
  const Variables variables = {{"SIMGPU_KERNELS", "*=1ms~5%"}, {"SIMGPU_SEED", "7"}};
  KernelModel a(Read(variables, &error)), b(Read(variables, &error));
  Variables other = variables;
  other["SIMGPU_RANK"] = "1";
  KernelModel c(Read(other, &error));
  double sum = 0, differs = 0;
  for (int i = 0; i < 1000; ++i) {
    const int64_t ns = a.KernelNs("k", {});
    EXPECT_EQ(ns, b.KernelNs("k", {}));
    differs += ns != c.KernelNs("k", {});
    sum += static_cast<double>(ns);
  }
  EXPECT_NEAR(sum / 1000, 1e6, 1e4);
  EXPECT_GT(differs, 900);
}

}  // namespace
}  // namespace lockstep::sim
