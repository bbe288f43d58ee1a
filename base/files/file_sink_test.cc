#include "base/files/file_sink.h"

#include <fcntl.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/fd.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

class FileSinkTest : public ::testing::Test {
 protected:
  FileSinkTest() {
    char pattern[] = "/tmp/lockstep-file-sink-XXXXXX";
    folder_ = ::mkdtemp(pattern);
  }
  ~FileSinkTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  static std::string Read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }

  std::string folder_;
};

TEST_F(FileSinkTest, RenamesTheFileWhenItIsFinished) {
  auto sink = OpenAtomicFile(Path("report.json"));
  ASSERT_TRUE(sink.ok()) << sink.status();
  ASSERT_TRUE((*sink)->Append("{}\n").ok());
  EXPECT_FALSE(std::filesystem::exists(Path("report.json")));
  ASSERT_TRUE((*sink)->Finish().ok());
  EXPECT_EQ(Read(Path("report.json")), "{}\n");
  EXPECT_FALSE(std::filesystem::exists(Path("report.json.partial")));
}

TEST_F(FileSinkTest, AnUnfinishedFileKeepsItsPartialName) {
  {
    auto sink = OpenAtomicFile(Path("merged.pftrace"));
    ASSERT_TRUE(sink.ok());
    ASSERT_TRUE((*sink)->Append(std::string(1 << 20, 'x')).ok());
  }
  EXPECT_FALSE(std::filesystem::exists(Path("merged.pftrace")));
  EXPECT_TRUE(std::filesystem::exists(Path("merged.pftrace.partial")));
}

TEST_F(FileSinkTest, ErrorsNameThePathAndTheSystemsMessage) {
  auto sink = OpenAtomicFile(Path("no/such/folder/file"));
  ASSERT_FALSE(sink.ok());
  EXPECT_NE(std::string(sink.status().message()).find("no/such/folder/file.partial"), std::string::npos);
  EXPECT_NE(std::string(sink.status().message()).find("No such file"), std::string::npos);
}

TEST_F(FileSinkTest, DoesNotFollowALinkAtThePartialName) {
  std::filesystem::create_symlink(Path("elsewhere"), Path("x.partial"));
  EXPECT_FALSE(OpenAtomicFile(Path("x")).ok());
  EXPECT_FALSE(std::filesystem::exists(Path("elsewhere")));
}

TEST_F(FileSinkTest, WritesToAnOpenFile) {
  const Fd file(::open(Path("open").c_str(), O_WRONLY | O_CREAT, 0600));
  const std::unique_ptr<ByteSink> sink = FdSink(file.get(), "open");
  const std::string large(300'000, 'x');
  ASSERT_TRUE(sink->Append("{").ok());
  ASSERT_TRUE(sink->Append(large).ok());
  ASSERT_TRUE(sink->Append("}").ok());
  ASSERT_TRUE(sink->Finish().ok());
  EXPECT_EQ(Read(Path("open")), "{" + large + "}");
  const std::unique_ptr<ByteSink> closed = FdSink(-1, "report.json");
  ASSERT_TRUE(closed->Append("x").ok());
  EXPECT_EQ(std::string(closed->Finish().message()), "cannot write report.json: Bad file descriptor");
}

TEST_F(FileSinkTest, GzipRoundTripsPiecesOfAnySize) {
  std::string text;
  auto sink = OpenAtomicFile(Path("t.gz"));
  ASSERT_TRUE(sink.ok());
  auto gzip = GzipSink(std::move(*sink));
  for (int i = 0; i < 3000; ++i) {
    std::string piece =
        std::string(static_cast<size_t>(i % 700), static_cast<char>('a' + i % 26)) + std::to_string(i * 7919);
    ASSERT_TRUE(gzip->Append(piece).ok());
    text += piece;
  }
  ASSERT_TRUE(gzip->Finish().ok());
  EXPECT_LT(std::filesystem::file_size(Path("t.gz")), text.size() / 2);
  gzFile in = ::gzopen(Path("t.gz").c_str(), "rb");
  ASSERT_NE(in, nullptr);
  std::string back(text.size() + 10, '\0');
  const int n = ::gzread(in, back.data(), static_cast<unsigned>(back.size()));
  ::gzclose(in);
  ASSERT_EQ(n, static_cast<int>(text.size()));
  back.resize(text.size());
  EXPECT_EQ(back, text);
}

TEST_F(FileSinkTest, AnEmptyGzipFileIsValid) {
  auto sink = OpenAtomicFile(Path("e.gz"));
  ASSERT_TRUE(sink.ok());
  auto gzip = GzipSink(std::move(*sink));
  ASSERT_TRUE(gzip->Finish().ok());
  gzFile in = ::gzopen(Path("e.gz").c_str(), "rb");
  char byte;
  EXPECT_EQ(::gzread(in, &byte, 1), 0);
  EXPECT_EQ(::gzclose(in), Z_OK);
}

}  // namespace
}  // namespace lockstep
