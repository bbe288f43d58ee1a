// Finds real traces in ../shared, for tests.
#ifndef LOCKSTEP_TESTS_REAL_REAL_TRACE_FIXTURE_H_
#define LOCKSTEP_TESTS_REAL_REAL_TRACE_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "formats/common/read_options.h"
#include "formats/input/read_input.h"

namespace lockstep::views {

inline std::filesystem::path Shared() { return std::filesystem::path(LOCKSTEP_SOURCE_DIR) / ".." / "shared"; }

// Returns the sorted files of a set, or nothing if the set is not there.
inline std::vector<std::string> FilesOf(const std::string& set) {
  std::vector<std::string> files;
  const std::filesystem::path at = Shared() / "traces" / set;
  if (std::filesystem::is_regular_file(at)) files.push_back(at.string());
  if (!std::filesystem::is_directory(at)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(at)) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

// Reads every frame of the host.
inline capture::Capture Read(const std::vector<std::string>& files) {
  auto capture = formats::ReadInput(files, {.host = formats::HostDetail::kFrames});
  EXPECT_TRUE(capture.ok()) << capture.status();
  return capture.ok() ? *std::move(capture) : capture::Capture{};
}

}  // namespace lockstep::views

#endif  // LOCKSTEP_TESTS_REAL_REAL_TRACE_FIXTURE_H_
