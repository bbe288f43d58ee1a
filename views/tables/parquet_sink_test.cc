#include "views/tables/parquet_sink.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "views/tables/parquet_encoding.h"
#include "views/tables/parquet_reader_fixture.h"

namespace lockstep::views {
namespace {

std::string Hex(const std::string& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    out.push_back(kDigits[static_cast<uint8_t>(c) >> 4]);
    out.push_back(kDigits[static_cast<uint8_t>(c) & 15]);
  }
  return out;
}

// The specification gives these examples byte by byte.
TEST(ParquetEncodingTest, EncodesTheExamplesOfTheSpecification) {
  std::string hybrid;
  AddHybrid(std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7}, 3, hybrid);
  EXPECT_EQ(Hex(hybrid), "0388c6fa");
  std::string run;
  AddHybrid(std::vector<uint32_t>(200, 1), 1, run);
  EXPECT_EQ(Hex(run), "900301");
  std::string delta;
  AddDeltaPacked(std::vector<int64_t>{1, 2, 3, 4, 5}, delta);
  EXPECT_EQ(Hex(delta),
            "8001"
            "04"
            "05"
            "02"
            "02"
            "00000000");
  std::string falling;
  AddDeltaPacked(std::vector<int64_t>{7, 5, 3, 1, 2, 3, 4, 5}, falling);
  // The first value is 7 and the least difference -2. The differences minus -2 are 0 0 0 3 3 3 3, in two bits
  // each, padded to 32 values.
  EXPECT_EQ(Hex(falling),
            "8001"
            "04"
            "08"
            "0e"
            "03"
            "02000000"
            "c03f000000000000");
}

class RandomTable {
 public:
  explicit RandomTable(uint32_t seed) : random_(seed) {
    table_ = {.name = "random", .meaning = "for a test", .columns = {}};
    constexpr CellType kTypes[] = {CellType::kBool,   CellType::kInt32, CellType::kInt64,
                                   CellType::kDouble, CellType::kText,  CellType::kText};
    for (size_t i = 0; i < std::size(kTypes) * 2; ++i) {
      names_.push_back("c" + std::to_string(i));
      types_.push_back(kTypes[i / 2]);
    }
    for (size_t i = 0; i < names_.size(); ++i) {
      table_.columns.push_back(
          {.name = names_[i], .unit = "", .meaning = "", .type = types_[i], .may_be_null = i % 2 == 1});
    }
    expected_.resize(names_.size());
  }

  const Table& table() const { return table_; }
  const std::vector<ExpectedCells>& expected() const { return expected_; }

  // Appends `rows` rows as one batch.
  void AppendTo(TableSink& sink, size_t rows) {
    std::vector<Cells> cells(names_.size());
    for (size_t i = 0; i < names_.size(); ++i) {
      const unsigned null_percent = random_() % 3 * 50;
      for (size_t row = 0; row < rows; ++row) AddCell(i, null_percent, cells[i]);
    }
    ASSERT_TRUE(sink.Append({.rows = rows, .columns = cells}).ok());
  }

 private:
  int64_t Number() {
    switch (random_() % 4) {
      case 0:
        return static_cast<int64_t>(random_());
      case 1:
        return static_cast<int64_t>(random_() % 5);
      case 2:
        return std::numeric_limits<int64_t>::min() + static_cast<int64_t>(random_() % 2);
      default:
        return std::numeric_limits<int64_t>::max() - static_cast<int64_t>(random_() % 2);
    }
  }

  void AddCell(size_t column, unsigned null_percent, Cells& cells) {
    const bool null = column % 2 == 1 && random_() % 100 < null_percent;
    const int64_t number = types_[column] == CellType::kInt32 ? static_cast<int32_t>(Number()) : Number();
    // The texts of the first text column repeat, those of the second do not.
    const std::string text = column < 10 ? "kernel<" + std::to_string(random_() % 40) + ">"
                                         : std::to_string(random_()) + "\xC3\xA4";
    std::optional<std::string> shown;
    switch (types_[column]) {
      case CellType::kBool:
        cells.Add(null ? std::nullopt : std::optional(number % 2 != 0));
        shown = number % 2 != 0 ? "true" : "false";
        break;
      case CellType::kInt32:
      case CellType::kInt64:
        cells.Add(null ? std::nullopt : std::optional(number));
        shown = std::to_string(number);
        break;
      case CellType::kDouble:
        cells.Add(null ? std::nullopt : std::optional(static_cast<double>(number % 1000000)));
        shown = std::to_string(number % 1000000);
        break;
      case CellType::kText:
        cells.Add(null ? std::nullopt : std::optional(std::string(text)));
        shown = text;
        break;
    }
    expected_[column].push_back(null ? std::nullopt : shown);
  }

  std::mt19937_64 random_;
  Table table_;
  std::vector<std::string> names_;
  std::vector<CellType> types_;
  std::vector<ExpectedCells> expected_;
};

TEST(ParquetSinkTest, ReadsBackEveryTypeInEveryShape) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    RandomTable random(seed);
    StringSink bytes;
    ParquetSink sink(random.table(), bytes);
    const std::vector<size_t> batches = {1, 7, 8, 9, 128, 129, 1000 + seed};
    for (const size_t rows : batches) random.AppendTo(sink, rows);
    ASSERT_TRUE(sink.Finish().ok());
    ExpectParquet(bytes.text(), random.table(), random.expected(), batches);
  }
}

TEST(ParquetSinkTest, WritesLargeTextsInSeparatePages) {
  const Table table = {.name = "t",
                       .meaning = "",
                       .columns = {{.name = "text", .unit = "", .meaning = "", .type = CellType::kText}}};
  StringSink bytes;
  ParquetSink sink(table, bytes);
  std::vector<Cells> cells(1);
  std::vector<std::string> texts;
  for (int i = 0; i < 9; ++i) texts.push_back(std::string(400000, static_cast<char>('a' + i)));
  for (const std::string& text : texts) cells[0].Add(std::string_view(text));
  ASSERT_TRUE(sink.Append({.rows = cells[0].size(), .columns = cells}).ok());
  ASSERT_TRUE(sink.Finish().ok());
  ExpectParquet(bytes.text(), table, {ExpectedCells(texts.begin(), texts.end())}, {texts.size()});
}

TEST(ParquetSinkTest, WritesListsOfEveryType) {
  const Table table = {
      .name = "t",
      .meaning = "",
      .columns = {
          {.name = "ranks", .unit = "", .meaning = "", .type = CellType::kInt32, .shape = CellShape::kList},
          {.name = "counts", .unit = "", .meaning = "", .type = CellType::kInt64, .shape = CellShape::kList},
          {.name = "flags", .unit = "", .meaning = "", .type = CellType::kBool, .shape = CellShape::kList},
          {.name = "texts", .unit = "", .meaning = "", .type = CellType::kText, .shape = CellShape::kList},
          {.name = "single", .unit = "", .meaning = "", .type = CellType::kInt32}}};
  StringSink bytes;
  ParquetSink sink(table, bytes);
  const std::vector<std::vector<int32_t>> ranks = {{}, {7}, {1, 2, 3}, {}, {-5, 0}};
  const std::vector<std::vector<uint64_t>> counts = {{1, 1}, {}, {9223372036854775807u}, {4}, {}};
  const std::vector<std::vector<bool>> flags = {{true}, {false, true}, {}, {}, {true, true, false}};
  const std::vector<std::vector<std::string>> texts = {
      {"a;b", ""}, {}, {"\"quoted\""}, {"\xC3\xA4"}, {"x", "x"}};
  std::vector<Cells> cells(5);
  for (size_t row = 0; row < ranks.size(); ++row) {
    cells[0].Add(ranks[row]);
    cells[1].Add(counts[row]);
    cells[2].Add(flags[row]);
    cells[3].Add(texts[row]);
    cells[4].Add(static_cast<int32_t>(row));
  }
  const std::vector<ExpectedCells> columns = {
      {"[]", "[7]", "[1,2,3]", "[]", "[-5,0]"},
      {"[1,1]", "[]", "[9223372036854775807]", "[4]", "[]"},
      {"[true]", "[false,true]", "[]", "[]", "[true,true,false]"},
      {R"(["a;b",""])", "[]", R"(["\"quoted\""])", "[\"\xC3\xA4\"]", R"(["x","x"])"},
      {"0", "1", "2", "3", "4"}};
  ASSERT_TRUE(sink.Append({.rows = ranks.size(), .columns = cells}).ok());
  ASSERT_TRUE(sink.Finish().ok());
  ExpectParquet(bytes.text(), table, columns, {ranks.size()});
}

// A reader skips a row group if its bounds exclude the wanted text, so a cut bound must still include it.
TEST(ParquetSinkTest, CutsTheBoundsOfLongTexts) {
  const Table table = {.name = "t",
                       .meaning = "",
                       .columns = {{.name = "text", .unit = "", .meaning = "", .type = CellType::kText}}};
  const std::vector<std::vector<std::string>> groups = {
      {std::string(200, 'm')},                                      // both bounds are cut
      {std::string(63, 'a') + "\xC3\xA4" + "b", "short"},           // the cut would divide a character
      {std::string(64, '\x7F') + "x"},                              // no ASCII character follows
      {"kept", std::string(60, 'z') + "\xE2\x82\xAC\xE2\x82\xAC"},  // the last character is not ASCII
  };
  StringSink bytes;
  ParquetSink sink(table, bytes);
  ExpectedCells expected;
  std::vector<size_t> rows;
  for (const std::vector<std::string>& texts : groups) {
    std::vector<Cells> cells(1);
    for (const std::string& text : texts) {
      cells[0].Add(std::string_view(text));
      expected.push_back(text);
    }
    rows.push_back(texts.size());
    ASSERT_TRUE(sink.Append({.rows = texts.size(), .columns = cells}).ok());
  }
  ASSERT_TRUE(sink.Finish().ok());
  ExpectParquet(bytes.text(), table, {expected}, rows);
}

TEST(ParquetSinkTest, WritesATableWithoutRows) {
  const Table table = {.name = "empty", .meaning = "", .columns = {{.name = "n", .unit = "", .meaning = ""}}};
  StringSink bytes;
  ParquetSink sink(table, bytes);
  ASSERT_TRUE(sink.Finish().ok());
  ExpectParquet(bytes.text(), table, {ExpectedCells()}, {});
}

TEST(ParquetSinkTest, ReportsTheFirstErrorOfTheFile) {
  class Full final : public ByteSink {
   public:
    absl::Status Append(std::string_view) override { return absl::ResourceExhaustedError("disk full"); }
    absl::Status Finish() override { return absl::OkStatus(); }
  };
  const Table table = {.name = "t", .meaning = "", .columns = {{.name = "n", .unit = "", .meaning = ""}}};
  Full full;
  ParquetSink sink(table, full);
  EXPECT_EQ(sink.Finish().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace lockstep::views
