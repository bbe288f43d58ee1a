#include "daemon/stacks/python_lines.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

using Lines = PythonLayout::Lines;

std::string Bytes(const std::vector<int>& bytes) {
  std::string text;
  for (const int byte : bytes) text += static_cast<char>(byte);
  return text;
}

std::vector<int32_t> LinesAt(Lines format, const std::string& table, int32_t first,
                             const std::vector<int64_t>& instructions) {
  std::vector<int32_t> lines;
  for (const int64_t instruction : instructions) lines.push_back(LineOf(format, table, first, instruction));
  return lines;
}

// Made by Python 3.9 of "def f(x):\n  a = 1\n\n\n  return (x +\n    a)": co_lnotab, and dis's lines.
TEST(PythonLines, ReadsPairsOfReleasesTo39) {
  const std::string table = Bytes({0, 1, 4, 3, 2, 1, 2, 255});
  EXPECT_EQ(LinesAt(Lines::kPairs, table, 1, {0, 2, 4, 6, 8, 10}), (std::vector<int32_t>{2, 2, 5, 6, 5, 5}));
}

// As CPython's Objects/lnotab_notes.txt describes it: lines 1, 2, 7 for more than 254 bytes, none, 8, and
// 208, which takes two steps.
TEST(PythonLines, ReadsRangesOf310) {
  const std::string table = Bytes({6, 0, 44, 1, 254, 5, 46, 0, 10, 128, 16, 1, 0, 127, 4, 73});
  EXPECT_EQ(LinesAt(Lines::kRanges, table, 1, {0, 4, 6, 48, 50, 348, 350, 358, 360, 376}),
            (std::vector<int32_t>{1, 1, 2, 2, 7, 7, 0, 0, 8, 208}));
  EXPECT_EQ(LineOf(Lines::kRanges, table, 1, 380), 0) << "after the last range";
}

TEST(PythonLines, ReadsLocationsFrom311) {
  // Kind 0 for 2 instructions, one line further, one of no columns with -3 lines, a long one with +200 lines,
  // and one without a line.
  const std::string table = Bytes({0x80 | 0 << 3 | 1, 0x12, 0x80 | 11 << 3 | 0, 1, 2, 0x80 | 13 << 3 | 0, 7,
                                   0x80 | 14 << 3 | 0, 0x50, 0x06, 0, 1, 1, 0x80 | 15 << 3 | 0});
  EXPECT_EQ(LinesAt(Lines::kLocations, table, 10, {0, 2, 4, 6, 8, 10, 12}),
            (std::vector<int32_t>{10, 10, 11, 8, 208, 0, 0}));
}

TEST(PythonLines, AcceptsDamagedTables) {
  for (const Lines format : {Lines::kPairs, Lines::kRanges, Lines::kLocations}) {
    EXPECT_EQ(LineOf(format, "", 7, 100), format == Lines::kPairs ? 7 : 0);
    LineOf(format, std::string(1000, '\xFF'), INT32_MAX, 1'000'000);
    LineOf(format, std::string(1000, '\x7F'), INT32_MAX, 1'000'000);
    LineOf(format, std::string(1, '\xF0'), INT32_MIN, 0);
  }
}

}  // namespace
}  // namespace lockstep::daemon
