#include "base/files/own_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class OwnFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/lockstep-own-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern), nullptr);
    top_ = pattern;
  }
  void TearDown() override { fs::remove_all(top_); }
  void Write(const std::string& name) const { std::ofstream(top_ + "/" + name) << "text"; }
  std::string Make(const std::string& name) const {
    const auto made = MakeFolderBeside(top_ + "/" + name, OwnFolder::kCapture);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? *made : "";
  }
  std::string top_;
};

TEST_F(OwnFolderTest, EachFolderHasANameOfItsOwnAndTheRightsOfTheUmask) {
  const mode_t before = ::umask(027);
  const std::string first = Make("new/capture"), second = Make("new/capture");
  ::umask(before);
  EXPECT_NE(first, second);
  EXPECT_THAT(Make("new/capture//"), HasSubstr("new/capture.partial-"));
  EXPECT_THAT(first, HasSubstr("new/capture.partial-"));
  EXPECT_TRUE(IsOwnFolder(first, OwnFolder::kCapture));
  struct stat info {};
  ASSERT_EQ(::stat(first.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0750u);
}

// The user's own folder may have any name and content.
TEST_F(OwnFolderTest, OnlyAMarkedFolderIsRemoved) {
  fs::create_directories(top_ + "/capture.partial/records");
  Write("capture.partial/thesis.tex");
  EXPECT_EQ(RemoveOwnFolder(top_ + "/capture.partial", OwnFolder::kCapture).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fs::exists(top_ + "/capture.partial/thesis.tex"));
  const std::string own = Make("capture");
  std::ofstream(own + "/report.json") << "{}";
  EXPECT_TRUE(RemoveOwnFolder(own, OwnFolder::kCapture).ok());
  EXPECT_FALSE(fs::exists(own));
  EXPECT_TRUE(RemoveOwnFolder(own, OwnFolder::kCapture).ok()) << "it is gone already";
}

TEST_F(OwnFolderTest, ALinkIsNotFollowed) {
  const std::string own = Make("capture");
  fs::create_symlink(own, top_ + "/link");
  EXPECT_FALSE(IsOwnFolder(top_ + "/link", OwnFolder::kCapture));
  EXPECT_FALSE(RemoveOwnFolder(top_ + "/link", OwnFolder::kCapture).ok());
  // The mark must be a file of the folder, not a link to one.
  fs::create_directory(top_ + "/other");
  fs::create_symlink(own + "/" + kOwnFolderMark, top_ + "/other/" + kOwnFolderMark);
  EXPECT_FALSE(IsOwnFolder(top_ + "/other", OwnFolder::kCapture));
}

TEST_F(OwnFolderTest, AMoveReplacesAMarkedOrAnEmptyFolder) {
  const std::string to = top_ + "/capture";
  fs::create_directory(to);
  const std::string first = Make("capture");
  std::ofstream(first + "/old") << "1";
  ASSERT_TRUE(MoveOwnFolder(first, to, OwnFolder::kCapture).ok());
  const std::string second = Make("capture");
  std::ofstream(second + "/new") << "2";
  ASSERT_TRUE(MoveOwnFolder(second, to, OwnFolder::kCapture).ok());
  EXPECT_FALSE(fs::exists(to + "/old"));
  EXPECT_TRUE(fs::exists(to + "/new"));
  EXPECT_EQ(std::distance(fs::directory_iterator(top_), fs::directory_iterator()), 1)
      << "nothing is left over";
}

// Records cannot be made again.
TEST_F(OwnFolderTest, AnArchiveDoesNotReplaceACapture) {
  const std::string to = top_ + "/capture";
  ASSERT_TRUE(MoveOwnFolder(Make("capture"), to, OwnFolder::kCapture).ok());
  const auto archive = MakeFolderBeside(to, OwnFolder::kOtf2Archive);
  ASSERT_TRUE(archive.ok());
  EXPECT_FALSE(IsOwnFolder(*archive, OwnFolder::kCapture));
  EXPECT_EQ(MoveOwnFolder(*archive, to, OwnFolder::kOtf2Archive).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(IsOwnFolder(to, OwnFolder::kCapture));
}

TEST_F(OwnFolderTest, AMoveKeepsWhatTheUserMade) {
  fs::create_directories(top_ + "/capture/records");
  Write("capture/notes.txt");
  const std::string made = Make("capture");
  const absl::Status moved = MoveOwnFolder(made, top_ + "/capture", OwnFolder::kCapture);
  EXPECT_EQ(moved.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(moved.message()), HasSubstr("is not a capture that Lockstep wrote"));
  EXPECT_TRUE(fs::exists(top_ + "/capture/notes.txt"));
  EXPECT_TRUE(IsOwnFolder(made, OwnFolder::kCapture)) << "the new data is kept, too";
}

TEST_F(OwnFolderTest, NamesTheReasonOfTheSystem) {
  Write("file");
  EXPECT_EQ(MakeFolderBeside(top_ + "/file/capture", OwnFolder::kCapture).status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(OwnFolderTest, MakesAFolderOnlyWhereNoneIs) {
  const std::string path = top_ + "/stored";
  ASSERT_TRUE(MakeOwnFolder(path, OwnFolder::kStoredCapture).ok());
  EXPECT_TRUE(IsOwnFolder(path, OwnFolder::kStoredCapture));
  EXPECT_FALSE(IsOwnFolder(path, OwnFolder::kCapture));
  EXPECT_EQ(MakeOwnFolder(path, OwnFolder::kStoredCapture).code(), absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace lockstep
