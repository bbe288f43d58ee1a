#include "cli/commands/memory_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace lockstep::cli {
namespace {

using testing::Eq;
using testing::Optional;

constexpr uint64_t kGiB = uint64_t{1} << 30;

// A machine of 16 GiB in a folder.
class MachineMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(root_);
    Write("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree:         1048576 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  const std::string root_ = testing::TempDir() + "/machine_memory_" + std::to_string(::getpid());
};

TEST_F(MachineMemoryTest, IsTheInstalledMemory) {
  EXPECT_THAT(MachineMemory(root_), Optional(16 * kGiB));
  Write("/proc/self/cgroup", "0::/user.slice/session\n");
  Write("/sys/fs/cgroup/user.slice/memory.max", "max\n");
  EXPECT_THAT(MachineMemory(root_), Optional(16 * kGiB));
}

TEST_F(MachineMemoryTest, IsTheLowestLimitOfTheGroupAndThoseAboveIt) {
  Write("/proc/self/cgroup", "0::/jobs/7\n");
  Write("/sys/fs/cgroup/jobs/7/memory.max", "8589934592\n");
  EXPECT_THAT(MachineMemory(root_), Optional(8 * kGiB));
  Write("/sys/fs/cgroup/jobs/memory.max", "4294967296\n");
  EXPECT_THAT(MachineMemory(root_), Optional(4 * kGiB));
}

TEST_F(MachineMemoryTest, AContainerShowsItsLimitAtTheRoot) {
  Write("/proc/self/cgroup", "0::/not/visible/here\n");
  Write("/sys/fs/cgroup/memory.max", "2147483648\n");
  EXPECT_THAT(MachineMemory(root_), Optional(2 * kGiB));
}

TEST_F(MachineMemoryTest, ReadsTheFirstVersionOfControlGroups) {
  Write("/proc/self/cgroup", "12:cpu:/\n5:memory:/job\n");
  Write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "3221225472\n");
  EXPECT_THAT(MachineMemory(root_), Optional(3 * kGiB));
}

TEST_F(MachineMemoryTest, IsUnknownWithoutProc) {
  EXPECT_THAT(MachineMemory(root_ + "/nothing"), Eq(std::nullopt));
}

TEST(MemoryLimit, TheFlagWinsOverHalfOfTheMachine) {
  EXPECT_EQ(MemoryLimitOf(5), 5u);
  EXPECT_EQ(MemoryLimitOf(0), MachineMemory("").value() / 2);
}

}  // namespace
}  // namespace lockstep::cli
