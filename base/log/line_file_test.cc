#include "base/log/line_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

class LineFileTest : public testing::Test {
 protected:
  LineFileTest() {
    EXPECT_NE(::mkdtemp(folder_), nullptr);
    path_ = std::string(folder_) + "/audit.jsonl";
  }
  ~LineFileTest() override { fs::remove_all(folder_); }
  static std::string Read(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  char folder_[32] = "/tmp/lockstep-lines-XXXXXX";
  std::string path_;
};

TEST_F(LineFileTest, AppendsToAFileOfMode600) {
  std::ofstream(path_) << "old\n";
  fs::permissions(path_, fs::perms::owner_read | fs::perms::owner_write);
  auto file = LineFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->Append("new").ok());
  EXPECT_EQ(Read(path_), "old\nnew\n");
  fs::remove(path_);
  EXPECT_TRUE((*file)->Append("made").ok());
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(LineFileTest, ReopensAfterARotation) {
  auto file = LineFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->Append("one").ok());
  fs::rename(path_, path_ + ".1");
  EXPECT_TRUE((*file)->Append("two").ok());
  EXPECT_EQ(Read(path_ + ".1"), "one\n");
  EXPECT_EQ(Read(path_), "two\n");
}

TEST_F(LineFileTest, RefusesLinksFoldersAndFilesReadableByOthers) {
  fs::create_symlink("/tmp/elsewhere", path_);
  EXPECT_FALSE(LineFile::Open(path_).ok());
  fs::remove(path_);
  std::ofstream(path_) << "";
  fs::permissions(path_, fs::perms(0644));
  const auto open = LineFile::Open(path_);
  EXPECT_EQ(open.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(open.status().message()), testing::HasSubstr("chmod 600 " + path_));
  EXPECT_FALSE(LineFile::Open(std::string(folder_) + "/no/such").ok());
}

TEST_F(LineFileTest, ATruncatedLineIsSeparatedFromTheNext) {
  auto file = LineFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 4;
  ::setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_FALSE((*file)->Append("123456").ok());
  EXPECT_FALSE((*file)->Append("78").ok());
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE((*file)->Append("next").ok());
  EXPECT_EQ(Read(path_), "1234\nnext\n");
}

}  // namespace
}  // namespace lockstep
