#include "formats/common/byte_source.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "formats/input/input_files_fixture.h"

namespace lockstep::formats {
namespace {

std::string ReadAll(ByteSource& source, size_t chunk) {
  std::string all;
  std::vector<char> buffer(chunk);
  while (const size_t n = source.Read(buffer)) all.append(buffer.data(), n);
  return all;
}

std::string SomeText(size_t size) {
  std::string text;
  for (size_t i = 0; text.size() < size; ++i) text += "{\"ts\": " + std::to_string(i * 7919 % 100003) + "}, ";
  return text;
}

TEST(ByteSource, InflatesGzipForAnyReadSize) {
  const std::string text = SomeText(700000);
  const std::string packed = Gzip(text);
  for (size_t chunk : {size_t{1000}, size_t{32768}, size_t{1 << 20}}) {
    auto source = GzipSource(std::make_unique<MemorySource>(packed));
    EXPECT_TRUE(ReadAll(*source, chunk) == text) << chunk;
    EXPECT_EQ(source->damage(), "");
    EXPECT_EQ(source->consumed(), packed.size());
  }
}

TEST(ByteSource, ReadsGzipMembersAndPaddingAsOneStream) {
  std::string packed;
  std::string text;
  for (int i = 0; i < 50; ++i) {
    text += SomeText(5000 + i);
    packed += Gzip(SomeText(5000 + i));
  }
  packed += Gzip("") + std::string(512, '\0');
  auto source = GzipSource(std::make_unique<MemorySource>(packed));
  EXPECT_TRUE(ReadAll(*source, 4096) == text);
  EXPECT_EQ(source->damage(), "");
}

TEST(ByteSource, ATruncatedStreamGivesItsBytesAndReportsTruncation) {
  const std::string text = SomeText(300000);
  const std::string packed = Gzip(text);
  for (size_t cut :
       {size_t{2}, size_t{9}, size_t{11}, packed.size() / 3, packed.size() - 9, packed.size() - 1}) {
    auto source = GzipSource(std::make_unique<MemorySource>(std::string_view(packed).substr(0, cut)));
    const std::string got = ReadAll(*source, 10000);
    EXPECT_EQ(text.compare(0, got.size(), got), 0) << cut;
    EXPECT_EQ(source->damage(), "the gzip data is truncated") << cut;
  }
}

TEST(ByteSource, DetectsDamagedGzip) {
  const std::string text = SomeText(100000);
  const std::string packed = Gzip(text);
  for (size_t at = 10; at < packed.size(); at += 97) {
    std::string damaged = packed;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    auto source = GzipSource(std::make_unique<MemorySource>(damaged));
    const std::string got = ReadAll(*source, 10000);
    EXPECT_TRUE(got == text || !source->damage().empty()) << at;
  }
}

TEST(ByteSource, RecognisesGzipByItsFirstBytes) {
  const std::string path = testing::TempDir() + "/byte_source_test.json";
  const std::string text = SomeText(5000);
  for (const std::string& content : {Gzip(text), text}) {
    std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
    auto opened = OpenTrace(path);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ(opened->bytes, content.size());
    EXPECT_TRUE(ReadAll(*opened->source, 999) == text);
  }
}

TEST(ByteSource, RecognisesGzipInAPipeOfTheShell) {
  const std::string text = SomeText(5000);
  const std::string packed = Gzip(text);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Fd reader(ends[0]);
  Fd writer(ends[1]);
  ASSERT_EQ(::write(writer.get(), packed.data(), packed.size()), static_cast<ssize_t>(packed.size()));
  writer.reset();
  auto opened = OpenTrace("/dev/fd/" + std::to_string(reader.get()));
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_TRUE(ReadAll(*opened->source, 999) == text);
}

TEST(ByteSource, ErrorNamesAnUnreadableFile) {
  const auto missing = OpenTrace("/nonexistent/trace.json");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(missing.status().ToString().find("/nonexistent/trace.json"), std::string::npos);
  EXPECT_EQ(OpenTrace("/").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::formats
