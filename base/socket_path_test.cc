#include "base/socket_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace lockstep {
namespace {

std::vector<std::string> Paths(const SocketPlaces& places) {
  std::vector<std::string> paths;
  for (int i = 0; i < places.count; ++i) paths.emplace_back(places.place[i].path);
  return paths;
}

TEST(SocketPlaces, FollowTheDocumentedOrder) {
  const SocketPlaces places = DaemonSocketPlaces(
      {.argument = "/a/d.sock", .environment = "/b/d.sock", .runtime_dir = "/run/user/1000", .uid = 1000});
  EXPECT_THAT(Paths(places),
              testing::ElementsAre("/a/d.sock", "/b/d.sock", "/run/lockstep/client.sock",
                                   "/run/user/1000/lockstep/client.sock", "/tmp/lockstep-1000/client.sock"));
  EXPECT_EQ(places.place[4].origin, SocketOrigin::kTemporary);
  EXPECT_EQ(places.too_long, nullptr);
}

TEST(SocketPlaces, SkipUnsetAndEmptyVariables) {
  const SocketPlaces places = DaemonSocketPlaces({.environment = "", .uid = 0});
  EXPECT_THAT(Paths(places),
              testing::ElementsAre("/run/lockstep/client.sock", "/tmp/lockstep-0/client.sock"));
}

TEST(SocketPlaces, ReportAPathThatExceedsASocketAddress) {
  const std::string too_long = "/" + std::string(kMaxSocketPath, 'x');
  const SocketPlaces places = DaemonSocketPlaces({.environment = too_long.c_str(), .uid = 4294967295u});
  EXPECT_THAT(Paths(places),
              testing::ElementsAre("/run/lockstep/client.sock", "/tmp/lockstep-4294967295/client.sock"));
  EXPECT_STREQ(places.too_long, too_long.c_str());
}

TEST(SocketPlaces, AcceptThePathOfMaximumLength) {
  const std::string fits = "/" + std::string(kMaxSocketPath - 2, 'x');
  EXPECT_THAT(Paths(DaemonSocketPlaces({.argument = fits.c_str()})), testing::Contains(fits));
}

class SocketFolder : public testing::Test {
 protected:
  SocketFolder() {
    char name[] = "/tmp/lockstep-socket-path-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~SocketFolder() override {
    ::unlink((folder_ + "/link").c_str());
    ::unlink((folder_ + "/file").c_str());
    ::rmdir(folder_.c_str());
  }
  std::string folder_;
};

TEST_F(SocketFolder, WritableByItsOwnerOnlyIsUsable) {
  EXPECT_EQ(CheckSocketFolder((folder_ + "/client.sock").c_str(), ::geteuid()), FolderVerdict::kUsable);
}

TEST_F(SocketFolder, ReadableByOthersIsUsable) {
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  EXPECT_EQ(CheckSocketFolder((folder_ + "/client.sock").c_str(), ::geteuid()), FolderVerdict::kUsable);
}

TEST_F(SocketFolder, WritableByGroupOrOthersIsRefused) {
  for (mode_t mode : {0770, 0702, 01777}) {
    ASSERT_EQ(::chmod(folder_.c_str(), mode), 0);
    EXPECT_EQ(CheckSocketFolder((folder_ + "/client.sock").c_str(), ::geteuid()),
              FolderVerdict::kOthersMayWrite);
  }
}

TEST_F(SocketFolder, OfAnotherUserIsRefused) {
  // Our own folder is checked for a process of another user, which is not root.
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(folder_.c_str(), 12345, 12345), 0);
  }
  EXPECT_EQ(CheckSocketFolder((folder_ + "/client.sock").c_str(), 54321), FolderVerdict::kForeignOwner);
}

TEST_F(SocketFolder, ReportsAMissingFolderAndAFile) {
  EXPECT_EQ(CheckSocketFolder((folder_ + "/nowhere/client.sock").c_str(), ::geteuid()),
            FolderVerdict::kMissing);
  const std::string file = folder_ + "/file";
  ASSERT_EQ(::close(::open(file.c_str(), O_CREAT | O_WRONLY, 0600)), 0);
  EXPECT_EQ(CheckSocketFolder((file + "/client.sock").c_str(), ::geteuid()), FolderVerdict::kNotAFolder);
}

TEST_F(SocketFolder, BehindALinkOfThisUserIsChecked) {
  const std::string link = folder_ + "/link";
  ASSERT_EQ(::symlink("/tmp", link.c_str()), 0);
  EXPECT_EQ(CheckSocketFolder((link + "/client.sock").c_str(), ::geteuid()), FolderVerdict::kOthersMayWrite);
}

TEST(SocketFolderRules, TmpItselfIsRefused) {
  EXPECT_EQ(CheckSocketFolder("/tmp/client.sock", ::geteuid()), FolderVerdict::kOthersMayWrite);
}

}  // namespace
}  // namespace lockstep
