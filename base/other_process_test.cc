#include "base/other_process.h"

#include <filesystem>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

class OtherProcess : public testing::Test {
 protected:
  OtherProcess() {
    char name[] = "/tmp/lk-other-XXXXXX";
    proc_ = ::mkdtemp(name);
    fs::create_directories(proc_ + "/70/root/run");
  }
  ~OtherProcess() override { fs::remove_all(proc_); }
  static void Write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
  bool Sees(const std::string& path) const {
    struct stat found = {};
    return StatAsSeenBy(proc_, 70, path, &found);
  }

  std::string proc_;
};

TEST_F(OtherProcess, SeesOnlyFilesInItsRoot) {
  Write(proc_ + "/70/root/run/client.sock", "");
  EXPECT_TRUE(Sees("/run/client.sock"));
  EXPECT_FALSE(Sees("/run/other.sock"));
  EXPECT_FALSE(Sees(proc_)) << "that is in ours";
  EXPECT_FALSE(Sees("run/client.sock")) << "relative to what?";
  EXPECT_FALSE(Sees(""));
  struct stat found = {};
  EXPECT_FALSE(StatAsSeenBy(proc_, 71, "/run", &found));
}

TEST_F(OtherProcess, AbsoluteLinksAndParentStepsStayInItsRoot) {
  fs::create_symlink(proc_, proc_ + "/70/root/ours");
  fs::create_symlink("/run", proc_ + "/70/root/link");
  Write(proc_ + "/70/root/run/file", "");
  EXPECT_FALSE(Sees("/ours"));
  EXPECT_TRUE(Sees("/link/file"));
  EXPECT_TRUE(Sees("/../../run/file"));
}

TEST_F(OtherProcess, UsersAreMappedByRanges) {
  EXPECT_TRUE(MapsUser(proc_, 70, 5)) << "not told";
  Write(proc_ + "/70/uid_map", "         0       1000          1\n         1     100000      65536\n");
  EXPECT_TRUE(MapsUser(proc_, 70, 1000));
  EXPECT_TRUE(MapsUser(proc_, 70, 165535));
  EXPECT_FALSE(MapsUser(proc_, 70, 165536));
  EXPECT_FALSE(MapsUser(proc_, 70, 0));
  fs::create_directories(proc_ + "/70/ns");
  fs::create_directories(proc_ + "/self/ns");
  Write(proc_ + "/self/ns/user", "");
  Write(proc_ + "/70/ns/user", "");
  EXPECT_FALSE(MapsUser(proc_, 70, 0)) << "two namespaces";
  fs::remove(proc_ + "/70/ns/user");
  fs::create_symlink(proc_ + "/self/ns/user", proc_ + "/70/ns/user");
  EXPECT_TRUE(MapsUser(proc_, 70, 0)) << "ours";
}

}  // namespace
}  // namespace lockstep
