#include "base/files/read_files.h"

#include <algorithm>
#include <fstream>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

class ReadFiles : public testing::Test {
 protected:
  ReadFiles() : folder_(fs::path(testing::TempDir()) / ("read_files_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~ReadFiles() override { fs::remove_all(folder_); }

  const fs::path folder_;
};

TEST_F(ReadFiles, ReadsWholeFilesOfAnySize) {
  for (const size_t size : {0, 1, 16 * 1024 - 1, 16 * 1024, 16 * 1024 + 1, 100'000}) {
    std::string text(size, 'x');
    if (size != 0) text.back() = '\0';
    std::ofstream(folder_ / "file", std::ios::binary) << text;
    EXPECT_EQ(FileText(folder_ / "file"), text) << size;
  }
}

TEST_F(ReadFiles, ReadsKernelFilesWithAStatedSizeOfZero) {
  ASSERT_EQ(fs::file_size("/proc/self/stat"), 0u);
  EXPECT_EQ(FileText("/proc/self/stat")->substr(0, 1 + std::to_string(::getpid()).size()),
            std::to_string(::getpid()) + " ");
}

TEST_F(ReadFiles, FailuresSetErrno) {
  errno = 0;
  EXPECT_EQ(FileText(folder_ / "none"), std::nullopt);
  EXPECT_EQ(errno, ENOENT);
}

// The open succeeds and the read fails, as with a file in /proc whose process has ended in between.
TEST_F(ReadFiles, AReadErrorAfterOpenSetsErrno) {
  EXPECT_EQ(FileText(folder_), std::nullopt);
  EXPECT_EQ(errno, EISDIR);
  EXPECT_EQ(FileText("/proc/self/mem"), std::nullopt) << "nothing is mapped at its beginning";
  EXPECT_EQ(errno, EIO);
}

TEST_F(ReadFiles, ListsTheEntriesOfAFolder) {
  std::ofstream file(folder_ / "a");
  fs::create_directory(folder_ / "b");
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : FolderEntries(folder_))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(FolderEntries(folder_ / "a").empty()) << "no folder";
  EXPECT_TRUE(FolderEntries(folder_ / "none").empty());
}

}  // namespace
}  // namespace lockstep
