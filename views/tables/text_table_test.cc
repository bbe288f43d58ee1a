#include "views/tables/text_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "views/catalog/view_columns.h"

namespace lockstep::views {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Row {
  std::string name;
  int64_t ns = 0;
  std::optional<double> share;
  std::optional<int64_t> bytes;
};

Grid SomeRows(std::vector<Row> rows) {
  using R = Row;
  return GridOf<Row>({"some", "Rows."}, std::move(rows),
                     {Make<R>("name", "", "", [](const R& r) { return std::string_view(r.name); }),
                      Make<R>("total_ns", "ns", "", [](const R& r) { return r.ns; }),
                      Make<R>("share_fraction", "fraction", "", [](const R& r) { return r.share; }),
                      Make<R>("size_bytes", "bytes", "", [](const R& r) { return r.bytes; })});
}

const std::string kLong =
    "void cutlass::Kernel<cutlass_80_tensorop_f16_s16816gemm_256x128_32x3_tn_align8>(Params)";

TEST(TextTable, PrintsReadableUnits) {
  const std::string text =
      TextTable(SomeRows({{"a", 4'212'000'000, 0.3601, 18'833'000'000}, {"b", 950, 0.0004, -2048}}), {});
  EXPECT_EQ(text,
            "name   total  share %      size\n"
            "----  ------  -------  --------\n"
            "a     4.21 s    36.0%   17.5 GB\n"
            "b     950 ns    0.04%  -2.00 kB\n")
      << "columns are as wide as their cells";
}

TEST(Grid, FiltersRowsByTextOrNumber) {
  const auto kept = [](std::string_view column, std::string_view wanted) {
    Grid grid =
        SomeRows({{"gemm_a", 5, 0.25, 7}, {"relu", 50, std::nullopt, -2}, {"gemm_b", 5, 0.5, std::nullopt}});
    EXPECT_TRUE(grid.KeepHolding(column, wanted).ok());
    std::string names;
    for (size_t i = 0; i < grid.rows(); ++i) names.append(grid.cells(0).texts()[grid.RowAt(i)]).append(" ");
    return names;
  };
  EXPECT_EQ(kept("name", "gemm"), "gemm_a gemm_b ");
  EXPECT_EQ(kept("name", ""), "gemm_a relu gemm_b ");
  EXPECT_EQ(kept("total_ns", "5"), "gemm_a gemm_b ") << "50 is another number";
  EXPECT_EQ(kept("share_fraction", "0.5"), "gemm_b ");
  EXPECT_EQ(kept("size_bytes", "-2"), "relu ");
  EXPECT_EQ(kept("size_bytes", ""), "") << "no number is empty, and what is unknown holds nothing";
  EXPECT_FALSE(SomeRows({}).KeepHolding("nope", "x").ok());
}

TEST(TextTable, CutsOrNamesColumnsThatDoNotFit) {
  const std::string text = TextTable(SomeRows({{kLong, 10, 0.5, 1}}), {.width = 60});
  EXPECT_THAT(text, HasSubstr("void cutlass::"));
  EXPECT_THAT(text, HasSubstr("(Params)"));
  EXPECT_THAT(text, HasSubstr("…"));
  EXPECT_THAT(text, Not(HasSubstr("not shown")));
  const std::string narrow = TextTable(SomeRows({{kLong, 10, 0.5, 1}}), {.width = 50});
  EXPECT_THAT(narrow, HasSubstr("not shown, because the table is too wide: size_bytes"));
  size_t at = 0;
  for (size_t end; (end = narrow.find('\n', at)) != std::string::npos && narrow.compare(at, 3, "not") != 0;
       at = end + 1) {
    size_t characters = 0;
    for (size_t i = at; i < end; ++i) characters += (static_cast<unsigned char>(narrow[i]) & 0xC0) != 0x80;
    EXPECT_LE(characters, 50u);
  }
}

TEST(TextTable, CutsDifferentNamesToDifferentTexts) {
  const std::string begin = "void at::native::vectorized_elementwise_kernel<4, at::native::",
                    end = "Functor<float>>";
  const std::string text = TextTable(SomeRows({{begin + "CUDAFunctor_add" + end, 3, {}, {}},
                                               {begin + "CUDAFunctor_mul" + end, 2, {}, {}},
                                               {begin + "AUnaryFunctor" + end, 1, {}, {}}}),
                                     {.width = 45});
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  EXPECT_THAT(lines[2], HasSubstr("_add"));
  EXPECT_THAT(lines[3], HasSubstr("_mul"));
  EXPECT_THAT(lines[4], HasSubstr("AUnary"));
  EXPECT_LE(lines[2].size(), 45u + 4u) << "two ellipses of three bytes each";
}

TEST(TextTable, NumbersNamesThatDifferInManyPlaces) {
  std::vector<Row> rows;
  for (int bits = 0; bits < 32; ++bits) {
    std::string name;
    for (int place = 0; place < 5; ++place) name += std::string(30, 'x') + (bits >> place & 1 ? '1' : '0');
    rows.push_back({name + std::string(30, 'y'), 1, {}, {}});
  }
  const std::vector<std::string> lines = absl::StrSplit(TextTable(SomeRows(rows), {.width = 45}), '\n');
  const std::set<std::string> different(lines.begin() + 2, lines.end() - 1);
  EXPECT_EQ(different.size(), 32u);
  for (const std::string& line : different) EXPECT_LE(line.size(), 45u + 8u) << "ellipses have three bytes";
}

TEST(TextTable, WrapsTheTextsOfALoneColumn) {
  Grid grid =
      SomeRows({{"give the loader of the data more workers, and prefetch the next batches", 1}, {kLong, 1}});
  ASSERT_TRUE(grid.Select({"name"}).ok());
  EXPECT_EQ(TextTable(grid, {.width = 40}),
            "name\n"
            "----------------------------------------\n"
            "give the loader of the data more\n"
            "  workers, and prefetch the next batches\n"
            "void\n"
            "  cutlass::Kernel<cutlass_80_tensorop_f1\n"
            "  6_s16816gemm_256x128_32x3_tn_align8>(P\n"
            "  arams)\n");
  EXPECT_THAT(TextTable(grid, {.width = 40, .too_wide = TextTableOptions::TooWide::kLongerLines}),
              HasSubstr("prefetch the next batches\n" + kLong + "\n"));
}

TEST(TextTable, ShowsNoCharactersThatControlATerminal) {
  const Grid grid = SomeRows({{"a\x1b[31m\r\nb\xc2\x9b\xe2\x80\xae", 1}});
  EXPECT_THAT(TextTable(grid, {}), HasSubstr("\na?[31m  b??   1 ns\n"));
  EXPECT_EQ(PlainTable(grid), "a_[31m__b?? 1 - -\n");
}

TEST(TextTable, KeepsTheSortedColumn) {
  const std::string text = TextTable(SomeRows({{kLong, 10, 0.5, 1}}), {.width = 50, .kept = "size_bytes"});
  EXPECT_THAT(text, HasSubstr("size"));
  EXPECT_THAT(text, HasSubstr("too wide: share_fraction"));
}

TEST(TextTable, LinesMayGetLongerInstead) {
  const Grid grid = SomeRows({{kLong, 10, 0.5, 1}});
  const std::string text =
      TextTable(grid, {.width = 20, .too_wide = TextTableOptions::TooWide::kLongerLines});
  EXPECT_THAT(text, Not(HasSubstr("not shown")));
  EXPECT_THAT(text, AllOf(HasSubstr("share"), HasSubstr("size"), HasSubstr("…")));
}

TEST(TextTable, HidesAColumnOfUnknowns) {
  EXPECT_THAT(TextTable(SomeRows({{"a", 1, {}, {}}}), {}), Not(HasSubstr("share")));
  EXPECT_THAT(TextTable(SomeRows({{"a", 1, {}, 3}, {"b", 1, 0.1, 3}}), {}), HasSubstr("share"));
}

TEST(PlainTable, PrintsOneWordPerValue) {
  EXPECT_EQ(PlainTable(SomeRows({{"a b\tc", 12, 0.25, {}}, {"", 1, {}, 7}})), "a_b_c 12 0.25 -\n- 1 - 7\n");
}

TEST(Grid, SortsSelectsAndTruncates) {
  Grid grid = SomeRows({{"a", 2, {}, 5}, {"b", 3, 0.5, 5}, {"c", 2, 0.7, 5}});
  ASSERT_TRUE(grid.SortBy("total_ns", SortOrder::kDescending).ok());
  EXPECT_EQ(PlainTable(grid), "b 3 0.5 5\na 2 - 5\nc 2 0.7 5\n") << "equal rows keep their order";
  ASSERT_TRUE(grid.SortBy("share_fraction", SortOrder::kAscending).ok());
  ASSERT_TRUE(grid.Select({"total_ns", "name"}).ok());
  EXPECT_EQ(PlainTable(grid), "3 b\n2 c\n2 a\n") << "the unknown last";
  grid.Truncate(1);
  EXPECT_EQ(PlainTable(grid), "3 b\n");
  const absl::Status wrong = grid.SortBy("size", SortOrder::kAscending);
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("there are total_ns, name"));
}

}  // namespace
}  // namespace lockstep::views
