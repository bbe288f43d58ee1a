#include "base/files/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/files/read_files.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

class SecretFileTest : public ::testing::Test {
 protected:
  SecretFileTest() {
    char pattern[] = "/tmp/lockstep-secret-file-XXXXXX";
    folder_ = mkdtemp(pattern);
    path_ = folder_ + "/secret";
  }
  ~SecretFileTest() override { std::filesystem::remove_all(folder_); }

  absl::Status Read(size_t most = 100, Links links = Links::kRefused) {
    return ReadSecretFile(path_, "key", most, links).status();
  }
  size_t Files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  std::string folder_;
  std::string path_;
};

TEST_F(SecretFileTest, IsReadAsItWasCreated) {
  const std::string bytes("a\0b\n", 4);
  ASSERT_TRUE(CreateSecretFile(path_, "key", bytes).ok());
  EXPECT_EQ(*ReadSecretFile(path_, "key", 4, Links::kRefused), bytes);
  EXPECT_EQ(CreateSecretFile(path_, "key", "other").code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(*ReadSecretFile(path_, "key", 4, Links::kRefused), bytes);
  EXPECT_EQ(Files(), 1u);
}

TEST_F(SecretFileTest, IsReplaced) {
  for (const char* bytes : {"old", "new"}) {
    ASSERT_TRUE(ReplaceFile(path_, "key", bytes, 0600).ok());
    EXPECT_EQ(*ReadSecretFile(path_, "key", 4, Links::kRefused), bytes);
  }
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_EQ(Files(), 1u);
  EXPECT_EQ(ReplaceFile(folder_ + "/no/secret", "key", "x", 0600).code(), absl::StatusCode::kNotFound);
}

TEST_F(SecretFileTest, IsRefusedIfOthersCanReadIt) {
  ASSERT_TRUE(CreateSecretFile(path_, "key", "x").ok());
  ASSERT_EQ(chmod(path_.c_str(), 0604), 0);
  EXPECT_EQ(Read(),
            absl::PermissionDeniedError("key " + path_ + " is readable by others: chmod 600 " + path_));
}

TEST_F(SecretFileTest, OfRootMayBeReadableForRootsGroup) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a file of another group";
  ASSERT_TRUE(CreateSecretFile(path_, "key", "x").ok());
  ASSERT_EQ(chown(path_.c_str(), 0, 0), 0);
  ASSERT_EQ(chmod(path_.c_str(), 0440), 0);
  EXPECT_TRUE(Read().ok());
  ASSERT_EQ(chown(path_.c_str(), 0, 4242), 0);
  EXPECT_EQ(Read().code(), absl::StatusCode::kPermissionDenied);
  ASSERT_EQ(chown(path_.c_str(), 0, 0), 0);
  ASSERT_EQ(chmod(path_.c_str(), 0460), 0);
  EXPECT_EQ(Read().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(SecretFileTest, LinksAreFollowedOnRequest) {
  ASSERT_TRUE(CreateSecretFile(folder_ + "/data", "key", "x").ok());
  ASSERT_EQ(symlink("data", path_.c_str()), 0);
  EXPECT_FALSE(Read().ok());
  EXPECT_TRUE(Read(100, Links::kFollowed).ok());
  ASSERT_EQ(chmod((folder_ + "/data").c_str(), 0644), 0);
  EXPECT_EQ(Read(100, Links::kFollowed).code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(SecretFileTest, RefusesOtherKindsOfFilesAndLargeOnes) {
  EXPECT_EQ(Read().code(), absl::StatusCode::kNotFound);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(Read().code(), absl::StatusCode::kPermissionDenied);
  ASSERT_EQ(unlink(path_.c_str()), 0);
  ASSERT_TRUE(CreateSecretFile(path_, "key", "123").ok());
  EXPECT_EQ(Read(2).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep
