#include "aggregator/reports/rows_check.h"

#include <fstream>

#include "aggregator/reports/stored_capture_fixture.h"
#include "base/files/read_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::aggregator {
namespace {

using ::testing::HasSubstr;

TEST(RowsCheck, NamesTheRankWithTheMostRows) {
  const TestFolder folder;
  const std::string capture = folder.path() + "/c";
  StoreCapture(capture, {RowBomb(1), RowBomb(3)});
  EXPECT_TRUE(CheckRows(capture, 4 * columns::kMaxRows).ok());
  const absl::Status refused = CheckRows(capture, 4 * columns::kMaxRows - 1);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(refused.message()),
            "the capture has 262144 rows, 196608 of them of rank 1, and may have 262143 (--analysis-rows)");
}

TEST(RowsCheck, CountsStrings) {
  const TestFolder folder;
  const std::string capture = folder.path() + "/c";
  std::string block;
  columns::EncodeStrings(1, {{{1, "a"}, {2, "b"}}}, block);
  StoreCapture(capture, {block});
  EXPECT_THAT(std::string(CheckRows(capture, 1).message()), HasSubstr("has 2 rows"));
}

TEST(RowsCheck, LeavesDamageToTheAnalysis) {
  const TestFolder folder;
  const std::string capture = folder.path() + "/c";
  StoreCapture(capture, {RowBomb(1)});
  for (const auto& entry : FolderEntries(capture + "/records")) {
    if (entry.path().extension() == ".lsr") std::ofstream(entry.path(), std::ios::app) << "damage";
  }
  EXPECT_TRUE(CheckRows(capture, columns::kMaxRows).ok());
  EXPECT_TRUE(CheckRows(folder.path() + "/missing", 0).ok());
}

}  // namespace
}  // namespace lockstep::aggregator
