#include "base/settings/settings_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lockstep::settings {
namespace {

using testing::HasSubstr;

TEST(ParseSettings, ReadsKeysWithValuesAndSkipsComments) {
  const FileContent content =
      ParseSettings("# one\n\n  ring-bytes = 8 MiB  \r\nlog=/var/log/a#b=c\n   # two", "f");
  EXPECT_TRUE(content.errors.empty());
  ASSERT_EQ(content.lines.size(), 2u);
  EXPECT_EQ(content.lines[0].number, 3);
  EXPECT_EQ(content.lines[0].key, "ring-bytes");
  EXPECT_EQ(content.lines[0].value, "8 MiB");
  EXPECT_EQ(content.lines[1].key, "log");
  EXPECT_EQ(content.lines[1].value, "/var/log/a#b=c") << "a value goes to the line's end";
}

TEST(ParseSettings, NamesEveryInvalidLine) {
  const std::string with_zero = std::string("node-id = b") + '\0' + "c\n";
  const FileContent content = ParseSettings(
      "[section]\nmetrics =\n= 3\nRing = 1\nnode-id = a\x01z\n" + with_zero + "node-id = x", "/etc/f");
  ASSERT_EQ(content.errors.size(), 6u);
  for (size_t i = 0; i < content.errors.size(); ++i) {
    EXPECT_THAT(content.errors[i], HasSubstr("/etc/f:" + std::to_string(i + 1) + ": "));
  }
  EXPECT_THAT(content.errors[1], HasSubstr("metrics has no value"));
  ASSERT_EQ(content.lines.size(), 1u) << "what is right is kept, so that all errors are found at once";
  EXPECT_EQ(content.lines[0].value, "x");
}

TEST(ReadSettingsFile, ReadsOnlyRegularFilesOfLimitedSize) {
  char folder[] = "/tmp/lockstep-settings-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/f";
  EXPECT_THAT(std::string(ReadSettingsFile(path).status().message()), HasSubstr(path));
  EXPECT_THAT(std::string(ReadSettingsFile(folder).status().message()), HasSubstr("not a regular file"));
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(std::string(ReadSettingsFile(path).status().message()), HasSubstr("not a regular file"))
      << "and does not wait for a writer";
  ::unlink(path.c_str());
  FILE* file = ::fopen(path.c_str(), "w");
  ::fputs("a = b\n", file);
  ::fclose(file);
  EXPECT_EQ(*ReadSettingsFile(path), "a = b\n");
  ASSERT_EQ(::truncate(path.c_str(), (1 << 20) + 1), 0);
  EXPECT_THAT(std::string(ReadSettingsFile(path).status().message()), HasSubstr("1048577 bytes"));
  ::unlink(path.c_str());
  ::rmdir(folder);
}

}  // namespace
}  // namespace lockstep::settings
