#include "cli/doctor/doctor_checks.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::cli {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
namespace fs = std::filesystem;

class DoctorChecks : public testing::Test {
 protected:
  DoctorChecks() {
    char name[] = "/tmp/lk-doctor-XXXXXX";
    root_ = ::mkdtemp(name);
    fs::create_directories(root_ / "proc");
    fs::create_directories(root_ / "dev");
  }
  ~DoctorChecks() override { fs::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void Run(int pid, const std::string& name) { Write("proc/" + std::to_string(pid) + "/comm", name + "\n"); }

  fs::path root_;
};

TEST_F(DoctorChecks, ReadsBothFormatsOfTheDriversVersion) {
  EXPECT_EQ(DriverModuleVersion(root_), std::nullopt);
  Write("proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC "
        "version: 12\n");
  EXPECT_EQ(DriverModuleVersion(root_), "550.54.15");
  Write("proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n");
  EXPECT_EQ(DriverModuleVersion(root_), "580.65.06");
}

TEST_F(DoctorChecks, AMissingGpuIsANoteAndMissingDeviceFilesAreBroken) {
  EXPECT_EQ(CheckGpuAccess(root_).verdict, Verdict::kNote);
  Write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  x\n");
  const Finding container = CheckGpuAccess(root_);
  EXPECT_EQ(container.verdict, Verdict::kBroken);
  EXPECT_THAT(container.text, HasSubstr("--gpus all"));
  Write("dev/nvidiactl", "");
  const Finding works = CheckGpuAccess(root_);
  EXPECT_EQ(works.verdict, Verdict::kWorks);
  EXPECT_THAT(works.text, HasSubstr("550.54.15"));
}

TEST_F(DoctorChecks, ChecksCuptisVersionAgainstTheDriver) {
  EXPECT_EQ(CheckCuptiVersion("libcupti.so.13", 130001, 13000).verdict, Verdict::kWorks);
  EXPECT_THAT(CheckCuptiVersion("libcupti.so.13", 130001, 0).text, HasSubstr("13.0.1"));
  EXPECT_EQ(CheckCuptiVersion("libcupti.so.13", 130000, 13000).verdict, Verdict::kBroken);
  const Finding old_driver = CheckCuptiVersion("libcupti.so.13", 130001, 12040);
  EXPECT_EQ(old_driver.verdict, Verdict::kBroken);
  EXPECT_THAT(old_driver.text, HasSubstr("CUDA 12.4"));
  EXPECT_EQ(CheckCuptiVersion("libcupti.so.12", 26, 13000).verdict, Verdict::kWorks);
  EXPECT_EQ(CheckCuptiVersion("libcupti.so.12", 22, 13000).verdict, Verdict::kNote);
  EXPECT_EQ(CheckCuptiVersion("libcupti.so.11.8", 18, 12000).verdict, Verdict::kNote);
}

TEST_F(DoctorChecks, NamesSharedAndPartitionedGpus) {
  EXPECT_THAT(CheckSharing(root_), IsEmpty());
  Run(71, "nvidia-cuda-mps");
  fs::create_directories(root_ / "proc/driver/nvidia/capabilities/gpu0/mig/gi1");
  fs::create_directories(root_ / "proc/driver/nvidia/capabilities/gpu1/mig");
  fs::create_directories(root_ / "proc/driver/nvidia/capabilities/mig");
  const std::vector<Finding> found = CheckSharing(root_);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_THAT(found[0].text, HasSubstr("(pid 71)"));
  EXPECT_THAT(found[1].text, HasSubstr("MIG: gpu0 split"));
}

TEST_F(DoctorChecks, NamesOtherProfilers) {
  Run(5, "python");
  EXPECT_THAT(CheckOtherProfilers(root_), IsEmpty());
  Run(6, "nsys");
  Run(7, "dynolog");
  Run(8, "nv-hostengine");
  const std::vector<Finding> found = CheckOtherProfilers(root_);
  ASSERT_THAT(found, SizeIs(3));
  EXPECT_THAT(found[0].text, HasSubstr("nsys (pid 6)"));
  EXPECT_THAT(found[1].text, HasSubstr("DCGM: nv-hostengine (pid 8)"));
  EXPECT_THAT(found[2].text, HasSubstr("dynolog (pid 7)"));
}

}  // namespace
}  // namespace lockstep::cli
