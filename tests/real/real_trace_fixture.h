// Real traces, where they lie beside the repository (../shared), for tests.
#ifndef LOCKSTEP_AGGREGATOR_TABLES_REAL_TRACE_FIXTURE_H_
#define LOCKSTEP_AGGREGATOR_TABLES_REAL_TRACE_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "aggregator/trace/readers.h"

namespace lockstep::tables {

inline std::filesystem::path Shared() { return std::filesystem::path(LOCKSTEP_SOURCE_DIR) / ".." / "shared"; }

// Files of a set, sorted; empty where it is not there.
inline std::vector<std::string> FilesOf(const std::string& set) {
  std::vector<std::string> files;
  const std::filesystem::path at = Shared() / "traces" / set;
  if (std::filesystem::is_regular_file(at)) files.push_back(at.string());
  if (!std::filesystem::is_directory(at)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(at)) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

// With every frame of the host.
inline store::Capture Read(const std::vector<std::string>& files) {
  auto capture = trace::ReadInput(files, {.host = trace::HostDetail::kFrames});
  EXPECT_TRUE(capture.ok()) << capture.status();
  return capture.ok() ? *std::move(capture) : store::Capture{};
}

}  // namespace lockstep::tables

#endif  // LOCKSTEP_AGGREGATOR_TABLES_REAL_TRACE_FIXTURE_H_
