#include "formats/files/folder_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace lockstep::formats {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST(FolderSearch, RefusesAFolderOfVeryManyFolders) {
  const fs::path top = fs::path(::testing::TempDir()) / ("folder_search_" + std::to_string(::getpid()));
  for (const char* name : {"a/b", "c", "d"}) fs::create_directories(top / name);
  const auto refused = FindTraces(top.string(), 4);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("holds more than 4 folders; give the folder of one job's traces"));
  EXPECT_THAT(std::string(FindTraces(top.string(), 5).status().message()), HasSubstr("holds no capture"));
  fs::remove_all(top);
}

}  // namespace
}  // namespace lockstep::formats
