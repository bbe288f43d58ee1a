#include "base/files/read_files.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

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

TEST_F(ReadFiles, SpecialFilesAreRefusedWithoutWaiting) {
  const std::string fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  fs::create_symlink("nowhere", folder_ / "link");
  const Fd listener(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  const std::string socket = folder_ / "socket";
  ASSERT_LT(socket.size(), sizeof address.sun_path);
  std::copy(socket.begin(), socket.end(), address.sun_path);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(OpenInputFile(fifo).why, "is a FIFO, not a regular file");
  EXPECT_EQ(OpenInputFile(fifo, Pipes::kOfShell).why, "is a FIFO, not a regular file");
  EXPECT_EQ(OpenInputFile(folder_ / "link").why, "is a link to a file that does not exist");
  EXPECT_EQ(OpenInputFile(socket).why, "is a socket, not a regular file");
  EXPECT_EQ(OpenInputFile("/dev/zero").why, "is a device, not a regular file");
  EXPECT_EQ(OpenInputFile(folder_).why, "is a folder, not a regular file");
  EXPECT_EQ(OpenInputFile(folder_ / "none").why, "cannot be opened: No such file or directory");
  EXPECT_EQ(FileText(fifo), std::nullopt);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(ReadFiles, APipeOfTheShellIsReadToItsEnd) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Fd reader(ends[0]);
  Fd writer(ends[1]);
  const std::string path = "/dev/fd/" + std::to_string(reader.get());
  const InputFile file = OpenInputFile(path, Pipes::kOfShell);
  ASSERT_TRUE(file.fd.ok()) << file.why;
  ASSERT_EQ(::write(writer.get(), "text", 4), 4);
  writer.reset();
  EXPECT_EQ(RestOf(file), "text");
  EXPECT_EQ(OpenInputFile(path).why, "is a FIFO, not a regular file") << "where reading must not wait";
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
